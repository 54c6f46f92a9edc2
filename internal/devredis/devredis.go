// Package devredis is the in-memory Redis of delayer --dev, for trying Delayer without installing Redis. It
// is miniredis with a real clock; it stores nothing on disk and slows down beyond about 10,000 waiting jobs.
package devredis

import "github.com/alicebob/miniredis/v2"

// User has access. All users have the same permissions.
type User struct {
	Name     string // "" for Redis's default user
	Password string
}

// Server is a running in-memory Redis. Create it with Start, end it with Close.
type Server struct {
	// Addr is the host:port at which it listens.
	Addr string

	close func()
}

// Start starts an empty Redis on addr, host:port; port 0 takes a free one. Without users everybody has
// access, otherwise only they.
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

// Close stops the server and closes its connections. Its contents are lost. Call it once.
func (s *Server) Close() { s.close() }
