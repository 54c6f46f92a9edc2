package web

import (
	"fmt"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
)

// Sparing writes log lines of many kinds: the first of a kind at once, then at most one per minute with the
// number of lines left out.
type Sparing struct {
	write func(line string)
	every time.Duration
	mu    sync.Mutex
	kinds map[string]*sparedKind
}

// maxKinds is how many kinds are told apart; the others count as one.
const maxKinds = 32

type sparedKind struct {
	last string
	more int // lines suppressed since the last one
}

// NewSparing returns a Sparing that passes its lines to write.
func NewSparing(write func(line string)) *Sparing {
	return &Sparing{write: write, every: time.Minute, kinds: map[string]*sparedKind{}}
}

// Say writes the line, or counts it if one of its kind was written within the last minute.
func (s *Sparing) Say(kind, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kinds[kind]; !ok && len(s.kinds) >= maxKinds {
		kind = ""
	}
	if k := s.kinds[kind]; k != nil {
		k.last = line
		k.more++
		return
	}
	s.kinds[kind] = &sparedKind{}
	s.write(line)
	time.AfterFunc(s.every, func() { s.again(kind) })
}

// again writes the number of suppressed lines, or forgets a kind that has none.
func (s *Sparing) again(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kind]
	if k.more == 0 {
		delete(s.kinds, kind)
		return
	}
	line := fmt.Sprintf("%s: %d more times within %v", k.last, k.more, duration.Format(s.every))
	if k.more == 1 {
		line = fmt.Sprintf("%s: once more within %v", k.last, duration.Format(s.every))
	}
	*k = sparedKind{}
	s.write(line)
	time.AfterFunc(s.every, func() { s.again(kind) })
}
