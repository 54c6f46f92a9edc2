package daemon

// pidFile does nothing on Windows, where nobody would send signals to the ID.
type pidFile struct{}

func lockPIDFile(string) (*pidFile, error) { return nil, nil }

func (*pidFile) release() {}
