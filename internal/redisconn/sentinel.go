package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// askWithin is how long a sentinel may take to answer, so that one that hangs holds nobody up for long.
	askWithin = time.Second
	// watchEvery is how often the sentinels are asked whether another server is the master now, and how long a
	// sentinel that is to tell us so may be silent.
	watchEvery = time.Second
	// restSilent is for how long a sentinel that did not answer is asked behind all others.
	restSilent = 10 * time.Second
)

// Sentinel finds the master of a name, as Redis Sentinel has it.
type Sentinel struct {
	Name      string
	Sentinels Dialer // opens connections to them; its Locator is not used

	every time.Duration // watchEvery, but for tests

	mu        sync.Mutex
	addrs     []string             // the one that answered last is first, the one that failed last is last
	silent    map[string]time.Time // when one last did not answer
	dial      Dial                 // the last one
	conns     map[*masterConn]bool
	stopWatch context.CancelFunc // nil if there are no connections
}

// NewSentinel makes one of the sentinels at those addresses.
func NewSentinel(name string, addrs []string, sentinels Dialer) *Sentinel {
	sentinels = sentinels.within(askWithin)
	return &Sentinel{Name: name, Sentinels: sentinels, every: watchEvery, addrs: slices.Clone(addrs), silent: map[string]time.Time{}, conns: map[*masterConn]bool{}}
}

// Locate asks one sentinel after the other, until one names a server that dial finds to be a master.
func (s *Sentinel) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	s.mu.Lock()
	s.dial = dial
	s.mu.Unlock()
	var failures []error
	for _, sentinel := range s.inTurn() {
		conn, err := s.ask(ctx, sentinel, dial)
		if err == nil {
			s.rank(sentinel, true)
			return conn, nil
		}
		if ctx.Err() != context.Canceled { // else the caller gave up
			s.rank(sentinel, false)
		}
		failures = append(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
		if IsOver(ctx) {
			break
		}
	}
	return nil, s.notFound(failures)
}

// IsOver reports whether ctx is done, or its deadline has passed: a connection notices that a little sooner.
func IsOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// refusal is a sentinel's no to whoever we are.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func isRefusal(err error) bool { return errors.As(err, new(refusal)) }

// notFound joins the errors in one line. That a sentinel refuses us is its text only, unless all do: trying again may help
// while another one is away.
func (s *Sentinel) notFound(failures []error) error {
	joined := fmt.Errorf("no master %q is found", s.Name)
	separator := ":"
	hopeless := !slices.ContainsFunc(failures, func(err error) bool { return !isRefusal(err) })
	for _, err := range failures {
		if isRefusal(err) && !hopeless {
			err = errors.New(err.Error())
		}
		joined = fmt.Errorf("%w%s %w", joined, separator, err)
		separator = ";"
	}
	return joined
}

func (s *Sentinel) ask(ctx context.Context, sentinel string, dial Dial) (redis.Conn, error) {
	addr, err := s.master(ctx, sentinel)
	switch {
	case errors.As(err, new(redis.Error)) || errors.As(err, new(*tls.CertificateVerificationError)) || Alert(err) != nil:
		return nil, refusal{err}
	case err != nil:
		return nil, err
	}
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("master %s: %w", addr, err)
	}
	if err := checkRole(ctx, conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("master %s: %w", addr, err)
	}
	return conn, nil
}

func (s *Sentinel) master(ctx context.Context, sentinel string) (addr string, err error) {
	defer func() {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.silent[sentinel] = time.Now()
		}
	}()
	conn, err := s.connect(ctx, sentinel)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	parts, err := redis.Strings(redis.DoContext(conn, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name))
	switch {
	case errors.Is(err, redis.ErrNil):
		return "", fmt.Errorf("it knows no master %q", s.Name)
	case err != nil:
		return "", err
	case len(parts) != 2:
		return "", fmt.Errorf("it answers %.200q", parts)
	}
	return net.JoinHostPort(parts[0], parts[1]), nil
}

func (s *Sentinel) connect(ctx context.Context, sentinel string) (redis.Conn, error) {
	d := s.Sentinels
	d.Locator = Fixed(sentinel)
	return d.Dial(ctx)
}

// checkRole refuses a server that says it is no master. A user without the permission to ask trusts the sentinel.
func checkRole(ctx context.Context, conn redis.Conn) error {
	reply, err := redis.Values(redis.DoContext(conn, ctx, "ROLE"))
	var role string
	if err == nil {
		_, err = redis.Scan(reply, &role)
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOPERM"):
		return nil
	case err == nil && role != "master":
		return fmt.Errorf("its role is %s", role)
	}
	return err
}

// inTurn are the sentinels in the order in which they are asked: those last that were silent a while ago, as each costs askWithin.
func (s *Sentinel) inTurn() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	rests := func(sentinel string) bool { return time.Since(s.silent[sentinel]) < restSilent }
	var resting []string
	addrs := slices.DeleteFunc(slices.Clone(s.addrs), func(sentinel string) bool {
		if rests(sentinel) {
			resting = append(resting, sentinel)
		}
		return rests(sentinel)
	})
	return append(addrs, resting...)
}

// rank makes that sentinel the first to be asked next time, because it has named the master, or the last.
func (s *Sentinel) rank(sentinel string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(s.addrs, func(addr string) bool { return addr == sentinel })
	if s.addrs = append(others, sentinel); first {
		s.addrs = append([]string{sentinel}, others...)
		delete(s.silent, sentinel)
	}
}

// masterConn is a connection to what was the master when it was dialled.
type masterConn struct {
	net.Conn
	sentinel *Sentinel
	addr     string
}

// Guard implements Locator. The connection is closed once the sentinels name another master, whoever waits on it: a master that
// hangs says nothing, and does not close it.
func (s *Sentinel) Guard(addr string, conn net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &masterConn{conn, s, addr}
	s.conns[c] = true
	if s.stopWatch == nil {
		var ctx context.Context
		ctx, s.stopWatch = context.WithCancel(context.Background())
		go s.watch(ctx)
	}
	return c
}

func (c *masterConn) Close() error {
	c.sentinel.forget(c)
	return c.Conn.Close()
}

// forget ends the watch with the last connection.
func (s *Sentinel) forget(c *masterConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 && s.stopWatch != nil {
		s.stopWatch()
		s.stopWatch = nil
	}
}

// watch looks for another master regularly.
func (s *Sentinel) watch(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.look(ctx)
	}
}

// look leaves all other servers than the one that the sentinels name.
func (s *Sentinel) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*askWithin)
	defer cancel()
	master, err := s.Master(ctx)
	if err != nil {
		return
	}
	if others := s.others(master); len(others) > 0 && s.isMaster(ctx, master) {
		for _, c := range others {
			c.Close()
		}
	}
}

// Master asks the sentinels, in turn, until one names a server, which may be unreachable. It returns the last sentinel's error.
func (s *Sentinel) Master(ctx context.Context) (addr string, err error) {
	for _, sentinel := range s.inTurn() {
		if addr, err = s.master(ctx, sentinel); err == nil || ctx.Err() == context.Canceled {
			return addr, err
		}
		s.rank(sentinel, false)
	}
	return "", err
}

// isMaster reports whether the server says so: a sentinel may be behind.
func (s *Sentinel) isMaster(ctx context.Context, addr string) bool {
	s.mu.Lock()
	dial := s.dial
	s.mu.Unlock()
	conn, err := dial(ctx, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	return checkRole(ctx, conn) == nil
}

func (s *Sentinel) others(master string) (others []*masterConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.addr != master {
			others = append(others, c)
		}
	}
	return others
}
