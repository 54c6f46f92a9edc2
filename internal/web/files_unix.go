//go:build unix

package web

import "syscall"

// filesAllowed returns how many files this process may have open (ulimit -n).
func filesAllowed() uint64 {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return 0
	}
	return uint64(files.Cur)
}
