package web

import (
	"fmt"
	"sync"
	"time"
)

// Sparing writes lines of many kinds, of each kind one at once, and then one a minute at most, that
// says how many there were.
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
	more int // lines since one was written
}

// NewSparing has lines written by write.
func NewSparing(write func(line string)) *Sparing {
	return &Sparing{write: write, every: time.Minute, kinds: map[string]*sparedKind{}}
}

// Say writes the line, or counts it, if one of its kind was written within the minute.
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

// again writes what was counted meanwhile, or forgets the kind.
func (s *Sparing) again(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kind]
	if k.more == 0 {
		delete(s.kinds, kind)
		return
	}
	line := fmt.Sprintf("%s: %d more times within %v", k.last, k.more, s.every)
	if k.more == 1 {
		line = fmt.Sprintf("%s: once more within %v", k.last, s.every)
	}
	*k = sparedKind{}
	s.write(line)
	time.AfterFunc(s.every, func() { s.again(kind) })
}
