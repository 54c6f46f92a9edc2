//go:build !windows

package redistest

import "syscall"

// Hang stops the server's process: it takes connections and commands, and
// answers nothing before Resume.
func (s *Server) Hang() { s.signal(syscall.SIGSTOP) }

// Resume lets a server go on that was made to hang.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.TB.Helper()
	Check(s.TB, s.cmd.Process.Signal(signal))
}
