package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// watchEvery is how often the sentinels are asked whether another server is the master now.
const watchEvery = time.Second

// Sentinel finds the master of a name, as Redis Sentinel has it.
type Sentinel struct {
	name      string
	sentinels guides
	conns     guarded       // to what was the master when they were dialled
	every     time.Duration // watchEvery, but for tests

	mu       sync.Mutex
	dial     Dial // the last one
	watching bool
}

// NewSentinel makes one of the sentinels at those addresses, to which the Dialer opens connections. Its Locator is not used.
func NewSentinel(name string, addrs []string, sentinels Dialer) *Sentinel {
	return &Sentinel{name: name, sentinels: newGuides(addrs, sentinels), every: watchEvery}
}

// To returns the Dialer of connections to a sentinel.
func (s *Sentinel) To(addr string) Dialer { return s.sentinels.dialer.to(addr) }

// Locate asks one sentinel after the other, until one names a server that dial finds to be a master.
func (s *Sentinel) Locate(ctx context.Context, dial Dial) (conn redis.Conn, err error) {
	s.mu.Lock()
	s.dial = dial
	s.mu.Unlock()
	failures, found := s.sentinels.each(ctx, func(sentinel string) error {
		addr, err := s.ask(ctx, sentinel)
		if err == nil {
			if conn, err = dialMaster(ctx, dial, addr); err != nil {
				err = fmt.Errorf("master %s: %w", addr, err)
			}
		}
		if err != nil {
			return fmt.Errorf("sentinel %s: %w", sentinel, err)
		}
		s.sentinels.rank(sentinel, true)
		return nil
	})
	if found {
		return conn, nil
	}
	if slices.ContainsFunc(failures, func(err error) bool { return !isRefusal(err) }) { // trying again may help while another one is away
		for i, err := range failures {
			if isRefusal(err) {
				failures[i] = errors.New(err.Error())
			}
		}
	}
	return nil, joined(fmt.Errorf("no master %q is found", s.name), failures)
}

// refusal is a sentinel's no to whoever we are.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func isRefusal(err error) bool { return errors.As(err, new(refusal)) }

// ask returns the address of the server that the sentinel names.
func (s *Sentinel) ask(ctx context.Context, sentinel string) (addr string, err error) {
	parts, err := redis.Strings(s.sentinels.ask(ctx, sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name))
	switch {
	case errors.As(err, new(redis.Error)) || errors.As(err, new(*tls.CertificateVerificationError)) || Alert(err) != nil:
		return "", refusal{err}
	case errors.Is(err, redis.ErrNil):
		return "", fmt.Errorf("it knows no master %q", s.name)
	case err != nil:
		return "", err
	case len(parts) != 2:
		return "", fmt.Errorf("it answers %.200q", parts)
	}
	return net.JoinHostPort(parts[0], parts[1]), nil
}

// Master asks the sentinels, in turn, until one names a server, which may be unreachable. It returns the last sentinel's error.
func (s *Sentinel) Master(ctx context.Context) (addr string, err error) {
	s.sentinels.each(ctx, func(sentinel string) error {
		addr, err = s.ask(ctx, sentinel)
		return err
	})
	return addr, err
}

// dialMaster refuses a server that says it is no master: a sentinel may be behind. A user without the permission to ask trusts the sentinel.
func dialMaster(ctx context.Context, dial Dial, addr string) (redis.Conn, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	reply, err := redis.Values(redis.DoContext(conn, ctx, "ROLE"))
	var role string
	if err == nil {
		_, err = redis.Scan(reply, &role)
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOPERM"):
		err = nil
	case err == nil && role != "master":
		err = fmt.Errorf("its role is %s", role)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Guard implements Locator. The connection is closed once the sentinels name another master, whoever waits on it: a master that
// hangs says nothing, and does not close it.
func (s *Sentinel) Guard(addr string, conn net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	return s.conns.add(addr, conn, func() {})
}

// watch looks for another master regularly, as long as there are connections.
func (s *Sentinel) watch() {
	for s.isWanted() {
		time.Sleep(s.every)
		s.look(context.Background())
	}
}

func (s *Sentinel) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = len(s.conns.but(func(string) bool { return false })) > 0
	return s.watching
}

// look leaves all other servers than the one that the sentinels name.
func (s *Sentinel) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*askWithin)
	defer cancel()
	master, err := s.Master(ctx)
	if err != nil {
		return
	}
	others := s.conns.but(func(addr string) bool { return addr == master })
	if len(others) == 0 {
		return
	}
	s.mu.Lock()
	dial := s.dial
	s.mu.Unlock()
	conn, err := dialMaster(ctx, dial, master)
	if err != nil {
		return
	}
	conn.Close()
	for _, c := range others {
		c.Close()
	}
}
