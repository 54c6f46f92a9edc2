// Package devredis is the in-memory Redis of delayer --dev: enough of Redis to
// try Delayer out without installing one. It keeps nothing, and is slow from
// some 10,000 waiting jobs on.
package devredis

import "github.com/alicebob/miniredis/v2"

// User may log in. There is no difference between what users may do.
type User struct {
	Name     string // empty: Redis's default user
	Password string
}

// Server is a running in-memory Redis. Make one with Start, end it with Close.
type Server struct {
	// Addr is the host:port at which it takes connections.
	Addr string

	close func()
}

// Start starts an empty Redis on addr, host:port; port 0 takes a free one.
// Without users everyone may use it, else only they, from the first connection on.
func Start(addr string, users ...User) (*Server, error) {
	m := miniredis.NewMiniRedis()
	for _, u := range users {
		if u.Name == "" {
			u.Name = "default"
		}
		m.RequireUserAuth(u.Name, u.Password)
	}
	if err := m.StartAddr(addr); err != nil {
		return nil, err
	}
	runClock(m)
	return &Server{Addr: m.Addr(), close: m.Close}, nil
}

// Close ends the server, its connections and whatever waits on them. What it
// held is gone. Call it once.
func (s *Server) Close() { s.close() }
