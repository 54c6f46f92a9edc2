package redistest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Cutter is a proxy that understands Redis's protocol and cuts the connection at a chosen command.
type Cutter struct {
	Proxy

	mu       sync.Mutex
	at       int // number of the command to cut at, from 1; 0: none
	answered bool
	commands []string // commands since Arm
	lost     []byte   // the lost reply
}

// StartCutter starts a Cutter in front of target. It ends with the test.
func StartCutter(tb testing.TB, target string) *Cutter {
	tb.Helper()
	NotExternal(tb, "puts a proxy between the client and Redis")
	c := new(Cutter)
	c.join = c.forward
	c.start(tb, target)
	return c
}

// Arm cuts the connection that carries the n-th command from now on, counted over all connections.
// The cut is before Redis gets the command or, with answered, after Redis has executed it and
// before its reply arrives.
func (c *Cutter) Arm(n int, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.answered, c.commands, c.lost = n, answered, nil, nil
}

// Commands returns the names of the commands since Arm. If there are n of them, the connection was
// cut.
func (c *Cutter) Commands() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

// Lost returns the reply that was lost to the cut.
func (c *Cutter) Lost() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.lost)
}

func (c *Cutter) lose(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = answer
}

// count reports whether to cut before or after this command.
func (c *Cutter) count(name string) (before, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = append(c.commands, strings.ToUpper(name))
	here := len(c.commands) == c.at
	return here && !c.answered, here && c.answered
}

// forward forwards whole commands and whole replies until the cut.
func (c *Cutter) forward(client, redis net.Conn) {
	swallow := make(chan bool, 1000) // for each command: whether to drop its reply
	either(func() {
		for r := bufio.NewReader(client); ; {
			command, words, err := readValue(r)
			if err != nil || len(words) == 0 {
				return
			}
			before, after := c.count(words[0])
			if before {
				return
			}
			swallow <- after
			redis.Write(command)
		}
	}, func() {
		for r := bufio.NewReader(redis); ; {
			answer, _, err := readValue(r)
			if err != nil {
				return
			}
			select {
			case after := <-swallow:
				if after {
					c.lose(answer)
					return
				}
			default: // a message to a subscriber, not a reply
			}
			client.Write(answer)
		}
	})
}

// readValue reads one value of RESP2, and returns its bytes and the texts in it.
func readValue(r *bufio.Reader) (raw []byte, texts []string, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$':
		if n < 0 {
			return line, nil, nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(line, text...), []string{string(text[:n])}, err
	case '*':
		for range n {
			more, of, err := readValue(r)
			if err != nil {
				return nil, nil, err
			}
			line, texts = append(line, more...), append(texts, of...)
		}
	}
	return line, texts, nil
}
