package runner

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// shellCommand passes the command unquoted, because cmd.exe does not parse arguments as programs
// do.
func shellCommand(command string) *exec.Cmd {
	cmd := exec.Command("cmd")
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

// endGroup kills the program and its children. It returns when the program has ended.
func endGroup(leader *os.Process, ended <-chan struct{}) {
	killGroup(leader.Pid)
	leader.Kill()
	<-ended
}

func killGroup(leader int) { exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(leader)).Run() }

// awaitEnd waits for the end of a program. Its process ID is not reused until it is reaped.
func awaitEnd(pid int) {
	handle, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return
	}
	defer windows.CloseHandle(handle)
	windows.WaitForSingleObject(handle, windows.INFINITE)
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
