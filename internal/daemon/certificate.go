package daemon

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificate is a pair of PEM files. It is loaded again when one of the files was replaced.
type certificate struct {
	section           string // configuration section that names the files
	certFile, keyFile string
	failed            func(error) // receives the error of unusable files, once until they change again

	mu   sync.Mutex
	pair *tls.Certificate
	read [2]time.Time // modification times of the loaded pair
	told [2]time.Time // modification times of the pair reported to failed
}

// get returns the pair, or the previous pair while the files are unusable.
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

// serverTLS returns nil without a certificate. Its errors name the wrong configuration key. failed receives the error of
// files that were replaced later and are unusable; it must not block.
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
