package runner

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// shellCommand passes the command unquoted, because cmd.exe does not parse arguments as programs
// do.
func shellCommand(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd /S /C "` + command + `"`}
	return cmd
}

// ownGroup keeps ctrl-C from the program.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
}

// endGroup kills the program and its children.
func endGroup(leader *os.Process) error {
	killGroup(leader)
	return leader.Kill()
}

func killGroup(leader *os.Process) {
	exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run()
}

// findInShell finds nothing: the syntax of cmd.exe is not parsed.
func findInShell(string) (path string, err error) { return "", nil }

// checkInterpreter does nothing: Windows has no interpreter lines.
func checkInterpreter(string) error { return nil }

// guard does nothing on Windows: programs keep running when the worker is killed.
type guard struct{}

func startGuard() guard { return guard{} }

func (guard) watch(int) {}

func (guard) forget(int) {}

// fleetingFile creates a file that Windows deletes when its last handle is closed.
func fleetingFile() (*os.File, error) {
	path := filepath.Join(os.TempDir(), "delayer-body-"+rand.Text())
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	handle, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}
