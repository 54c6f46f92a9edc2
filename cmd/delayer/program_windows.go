package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// shellCommand leaves the quoting to the command: cmd.exe does not read it as programs do.
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

// endGroup kills the program and what it has started. It returns when the program has ended.
func endGroup(leader *os.Process, ended <-chan struct{}) {
	killGroup(leader.Pid)
	leader.Kill()
	<-ended
}

func killGroup(leader int) { exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(leader)).Run() }

// awaitEnd waits for the end of a program. As long as it is not reaped, its number is its own.
func awaitEnd(pid int) {
	handle, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return
	}
	defer windows.CloseHandle(handle)
	windows.WaitForSingleObject(handle, windows.INFINITE)
}

// findInShell knows nothing of what cmd.exe runs.
func findInShell(string) (path string, err error) { return "", nil }

// checkInterpreter has nothing to do: Windows knows no scripts.
func checkInterpreter(string) error { return nil }

// guard is nothing yet: programs go on when we are killed.
type guard struct{}

func startGuard() guard { return guard{} }

func (guard) watch(int) {}

func (guard) forget(int) {}
