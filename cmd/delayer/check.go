package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/config"
)

// checkConfiguration implements --check-config: it tests all of a start but Redis, and changes nothing.
func checkConfiguration(o options, stdout *os.File) error {
	found, err := findConfiguration(o)
	if err != nil {
		return err
	}
	printWarnings(stdout, found) // which may explain an error
	c := found.config
	notes := ownPaths(&c.Delayer)
	_, wrongFile := poolOptions(c.Redis)
	_, wrongPair := serverTLS("http", c.HTTP.TLSCert, c.HTTP.TLSKey, nil)
	inUse, cannotListen := tryListen(c.HTTP)
	if err := errors.Join(wrongFile, wrongPair, tryPaths(c.Delayer), cannotListen); err != nil {
		return fail(exitUsage, err)
	}
	if pid := runningInstance(c.Delayer.PID); pid > 0 {
		notes = append(notes, fmt.Sprintf("Note: the service is running, PID: %d", pid))
	} else if inUse != nil {
		notes = append(notes, fmt.Sprintf("Note: %v", inUse))
	}
	text := strings.Join(append(notes, fmt.Sprintf("%s: the configuration is good\n", cmp.Or(o.configuration, found.searched))), "\n")
	return printOut(stdout, text)
}

// tryPaths returns the errors of all files that can't be written.
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
