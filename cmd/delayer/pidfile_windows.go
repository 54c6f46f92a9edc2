package main

// pidFile: there is none on Windows, where nobody would send the ID a signal.
type pidFile struct{}

func lockPIDFile(string) (*pidFile, error) { return nil, nil }

func (*pidFile) release() {}

// pidNote says that a configured pid file does not apply.
func pidNote(path string) string {
	if path == "" {
		return ""
	}
	return "Note: delayer.pid does not apply on Windows, several instances may run."
}
