// Package server is the daemon's work: it moves the jobs that fall due into
// their topics' ready queues.
package server

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Logger is told what happened, one message a line. It must be safe for
// concurrent use. *logger.Logger is one.
type Logger interface {
	Info(message string)
	Error(message string)
}

// Options of a Server. The zero value works.
type Options struct {
	// Interval is the time between two passes when nothing falls due in
	// between. 0 means 1 s.
	Interval time.Duration
	// Prefix begins the name of every key. Empty means "delayer:".
	Prefix string
	// StallBudget is how long one script may keep Redis from its other users.
	// 0 means 2 ms.
	StallBudget time.Duration
	// Logger is told of moves and failures. nil means nobody is.
	Logger Logger
}

// ErrRefused is in the error of Check when trying again can't help: wrong
// password, no permission, no such database, a Redis too old.
var ErrRefused = errors.New("refused by redis")

// Server moves due jobs. Make one with New.
type Server struct {
}

// New makes a Server that works on the pool's Redis. The pool stays the caller's.
func New(pool *redis.Pool, o Options) *Server { return &Server{} }

// Check asks Redis once whether the server could work. Its error wraps
// ErrRefused when trying again can't help; with any other error Run keeps trying.
func (s *Server) Check(ctx context.Context) error { return nil }

// Run moves jobs until ctx is done, finishes the batch in hand within 4 s, and
// returns nil. Redis being away is logged and waited out.
func (s *Server) Run(ctx context.Context) error { <-ctx.Done(); return nil }
