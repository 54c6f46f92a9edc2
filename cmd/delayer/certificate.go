package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificate is a pair of PEM files that are read again when one of them was replaced.
type certificate struct {
	section           string // that names the files
	certFile, keyFile string
	failed            func(error) // gets the error of files that can't be used, once until they change again

	mu   sync.Mutex
	pair *tls.Certificate
	read [2]time.Time // when the files of the pair were changed
	told [2]time.Time // when the files that failed knows about were changed
}

// get returns the pair: the previous one while the files can't be used.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := [2]time.Time{changedAt(c.certFile), changedAt(c.keyFile)}
	if changed == c.read && c.pair != nil {
		return c.pair, nil
	}
	pair, err := keyPair(c.section, c.certFile, c.keyFile)
	switch {
	case err == nil:
		c.pair, c.read = &pair, changed
	case c.pair == nil:
		return nil, err
	case changed != c.told:
		c.told = changed
		c.failed(err)
	}
	return c.pair, nil
}

func changedAt(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// serverTLS returns nil without a certificate. Its errors name the wrong key of the configuration. failed gets the error
// of files that were replaced later and can't be used; it must not block.
func serverTLS(section, certFile, keyFile string, failed func(error)) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil
	}
	c := &certificate{section: section, certFile: certFile, keyFile: keyFile, failed: failed}
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}, nil
}

func keyPair(section, certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s.tls_cert: %w", section, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s.tls_key: %w", section, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s.tls_cert, %[1]s.tls_key: %s, %s: %w", section, certFile, keyFile, err)
	}
	return pair, nil
}
