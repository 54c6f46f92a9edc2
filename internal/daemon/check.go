package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
)

// CheckConfiguration implements --check-config: it tests all of a start but Redis, and changes nothing. It returns what is to be printed,
// also with an error, which warnings may explain.
func CheckConfiguration(o Options) (text string, err error) {
	found, err := FindConfiguration(o)
	if err != nil {
		return "", err
	}
	var warnings strings.Builder
	found.PrintWarnings(&warnings)
	c := found.Config
	notes := ownPaths(&c.Delayer)
	_, wrongFile := poolOptions(c.Redis)
	_, wrongPair := serverTLS("http", c.HTTP.TLSCert, c.HTTP.TLSKey, nil)
	inUse, cannotListen := tryListen(c.HTTP)
	if err := errors.Join(wrongFile, wrongPair, tryPaths(c.Delayer), cannotListen); err != nil {
		return warnings.String(), exit.With(exit.Usage, err)
	}
	if pid := runningInstance(c.Delayer.PID); pid > 0 {
		notes = append(notes, fmt.Sprintf("Note: the service is running, PID: %d", pid))
	} else if inUse != nil {
		notes = append(notes, fmt.Sprintf("Note: %v", inUse))
	}
	notes = append(notes, fmt.Sprintf("%s: the configuration is good\n", cmp.Or(o.Configuration, found.from)))
	return warnings.String() + strings.Join(notes, "\n"), nil
}

// WrongPaths returns the errors of the files that a start can't write.
func (c Configuration) WrongPaths() error {
	ownPaths(&c.Delayer)
	return tryPaths(c.Delayer)
}

func tryPaths(d config.Delayer) error {
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
