//go:build !windows

package runner

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a process that outlives the worker briefly. If the worker is killed, the guard's input ends, and it kills
// the process groups of the running programs.
type guard struct{ input io.Writer }

// guardScript reads "+ GROUP" after a program was started, and "- GROUP" after it has ended.
const guardScript = `trap '' HUP INT QUIT TERM
while read -r what group; do
	case $what in
	+) groups="$groups $group " ;;
	-) groups="${groups%% $group *}${groups#* $group }" ;;
	esac
done
for group in $groups; do kill -s KILL -- "-$group"; done`

// startGuard starts the guard. Without a shell it does nothing.
func startGuard() guard {
	cmd := exec.Command("sh", "-c", guardScript, "delayer worker's guard")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps a terminal's ctrl-C away
	input, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return guard{io.Discard}
	}
	go cmd.Wait()
	return guard{input}
}

func (g guard) watch(group int) { fmt.Fprintf(g.input, "+ %d\n", group) }

func (g guard) forget(group int) { fmt.Fprintf(g.input, "- %d\n", group) }
