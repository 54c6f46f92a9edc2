package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/server"
)

// CheckConfiguration implements --check-config: it tests everything that a start would do, and changes nothing. With
// --check-redis it tests Redis, too. It returns what is to be printed, also with an error, which warnings may explain.
func CheckConfiguration(o Options) (text string, err error) {
	found, err := FindConfiguration(o)
	if err != nil {
		return "", err
	}
	var warnings strings.Builder
	found.PrintWarnings(&warnings)
	c := found.Config
	notes := ownPaths(&c.Delayer)
	pool, err := PoolOptions(c.Redis)
	_, wrongPair := serverTLS("http", c.HTTP.TLSCert, c.HTTP.TLSKey, nil)
	inUse, cannotListen := tryListen(c.HTTP)
	if err := errors.Join(err, wrongPair, TryPaths(c.Delayer), cannotListen); err != nil {
		return warnings.String(), exit.With(exit.Usage, err)
	}
	if pid := runningInstance(c.Delayer.PID); pid > 0 {
		notes = append(notes, fmt.Sprintf("Note: the service is running, PID: %d", pid))
	} else if inUse != nil {
		notes = append(notes, fmt.Sprintf("Note: %v", inUse))
	}
	if o.CheckRedis {
		note, err := askRedis(c.Redis, pool)
		if err != nil {
			return warnings.String(), err
		}
		notes = append(notes, note)
	}
	notes = append(notes, fmt.Sprintf("%s: the configuration is good\n", cmp.Or(o.Configuration, found.from)))
	return warnings.String() + strings.Join(notes, "\n"), nil
}

// TryPaths returns the errors of all files that can't be written.
func TryPaths(d config.Delayer) error {
	return errors.Join(named("delayer.pid", tryPIDFile(d.PID)),
		named("delayer.access_log", tryFile(d.AccessLog)), named("delayer.error_log", tryFile(d.ErrorLog)))
}

func named(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// tryListen listens briefly. An address in use is no mistake in the configuration.
func tryListen(h config.HTTP) (inUse, err error) {
	if h.Listen == "" {
		return nil, nil
	}
	l, err := listenTCP(h.Listen)
	if err == nil {
		return nil, l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return err, nil
	}
	return nil, err
}

// askRedis implements --check-redis. note is the line to print if Redis accepts the server.
func askRedis(r config.Redis, o client.PoolOptions) (note string, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := client.Connect(o)
	if err != nil {
		return "", exit.With(exit.Usage, err)
	}
	defer pool.Close()
	err = checkRedis(ctx, server.New(pool, server.Options{Prefix: r.Prefix, Partitions: r.Partitions}), o)
	switch {
	case err == nil:
		return fmt.Sprintf("redis on %s: it takes the server", r.Place()), nil
	case works(err):
		place := fmt.Sprintf("redis on %s: warning: ", r.Place())
		return place + strings.ReplaceAll(err.Error(), "\n", "\n"+place), nil
	case errors.Is(err, context.Canceled):
		return "", exit.With(exit.Interrupted, nil)
	}
	return "", exit.With(exit.Redis, fmt.Errorf("redis on %s: %w", r.Place(), err))
}
