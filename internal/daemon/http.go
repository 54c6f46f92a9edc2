package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/api"
	"github.com/mix-basic/delayer/internal/web/dashboard"
	"github.com/mix-basic/delayer/internal/web/delayqueue"
	"github.com/mix-basic/delayer/internal/web/metrics"
	"github.com/mix-basic/delayer/logger"
)

// httpServer is the daemon's HTTP server. It has its own connections to Redis, so that its load does not delay the
// daemon's work.
type httpServer struct {
	listener net.Listener
	url      string
	metrics  *metrics.Metrics
	limit    *web.Limited
	spare    *web.Sparing
	web      *web.Server
	close    func() // may be called again; waits for the client's calls
}

// A busy HTTP server pushes, pops and removes at the same time. With the daemon's few idle connections, it would dial
// hundreds of times a second.
const (
	httpIdle        = 8 // minimum number of connections kept
	httpIdleTimeout = 10 * time.Second
)

// openHTTP listens at http.listen. If it can't, the daemon does not start. It returns nil if no HTTP server is configured.
func openHTTP(c config.Config, o Options, pool client.PoolOptions, log *logger.Logger) (*httpServer, error) {
	f, err := listenHTTP(c.HTTP, o.Dev, log)
	if f == nil {
		return nil, err
	}
	h := c.HTTP
	pool.MaxIdle, pool.IdleTimeout = max(pool.MaxIdle, httpIdle), httpIdleTimeout
	own, err := client.Connect(pool)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	jobClient, err := client.New(own, client.WithPrefix(c.Redis.Prefix), client.WithLogger(slog.New(slog.NewTextHandler(logLines{log}, nil))))
	all, wrong := fleet.Open((*fleet.Redis)(own), c.Redis.Prefix)
	if err := cmp.Or(err, wrong); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	jobs := inspect.New(all)
	f.metrics = metrics.New(jobs, metrics.Options{
		Topics: cmp.Or(h.TopicLabels, -1), Version: o.Version,
		Interval: c.Delayer.TimerInterval, ReadyMaxLate: h.ReadyMaxLate,
	})
	pages := dashboard.New(jobClient, jobs, dashboard.Options{ReadOnly: h.ReadOnly, Version: o.Version, Place: placeOf(c.Redis, pool)})
	w := webOptions(h, log)
	w.TLS, w.Limit, w.Spare = h.TLSCert != "", f.limit, f.spare
	w.RedisTimeout = pool.ConnectTimeout + pool.ReadTimeout + pool.WriteTimeout
	f.web = web.New(w,
		delayqueue.New(jobClient, delayqueue.Options{MaxBody: int64(h.MaxBody), PollTimeout: h.PollTimeout, Pushed: f.metrics.Pushed, Failed: f.failed}),
		api.New(jobClient, jobs, api.Options{MaxBody: int64(h.MaxBody), MaxWait: h.PollTimeout, Pushed: f.metrics.Pushed, Failed: f.failed}),
		f.metrics.Area(), f.metrics.Health(), pages.Area(),
	)
	f.metrics.Watch(f.web)
	f.close = sync.OnceFunc(func() {
		f.listener.Close()
		jobClient.Close()
		own.Close()
	})
	return f, nil
}

// placeOf returns the address of Redis for the dashboard.
func placeOf(r config.Redis, o client.PoolOptions) dashboard.Place {
	p := dashboard.Place{Master: r.SentinelMaster, Sentinels: r.Sentinels, Cluster: r.Cluster}
	if len(r.Sentinels) > 0 {
		p.Now = Sentinels(o).Master
	}
	return p
}

func listenHTTP(h config.HTTP, dev bool, log *logger.Logger) (*httpServer, error) {
	addresses := []string{h.Listen}
	switch {
	case h.Listen == "" && dev:
		addresses = devHTTP
	case h.Listen == "":
		return nil, nil
	}
	encryption, err := serverTLS("http", h.TLSCert, h.TLSKey, func(err error) {
		log.Error(fmt.Sprintf("HTTP server: the previous certificate stays in use, since the new one can't be used: %v", err))
	})
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	var l net.Listener
	for _, address := range addresses {
		if l, err = listenTCP(address); err == nil {
			break
		}
	}
	if err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	spare := web.NewSparing(func(line string) { log.Error("HTTP server: " + line) })
	most := web.AllowedConns()
	limit := web.Limit(l, most, func(address string) {
		spare.Say("connections", fmt.Sprintf("all %d connections are in use: one of an unauthenticated client made room for a new one; most of these are from %s", most, address))
	})
	f := &httpServer{listener: limit, url: "http://" + l.Addr().String() + "/", limit: limit, spare: spare}
	if encryption != nil {
		f.listener, f.url = tls.NewListener(limit, encryption), "https://"+l.Addr().String()+"/"
	}
	return f, nil
}

// listenTCP listens on the address. Its errors name the configuration key and the address.
func listenTCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if at := (*net.OpError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return nil, fmt.Errorf("http.listen = %s: %w", address, err)
}

func webOptions(h config.HTTP, l *logger.Logger) web.Options {
	o := web.Options{Token: h.Token, Hosts: h.Hosts, ReadOnly: h.ReadOnly, Log: log.New(logLines{l}, "", 0)}
	if host, _, err := net.SplitHostPort(h.Listen); err == nil && host != "" {
		o.Hosts = append([]string{host}, o.Hosts...)
	}
	o.Users = usersOf(h)
	return o
}

func usersOf(h config.HTTP) (users []web.User) {
	for _, u := range h.Users {
		users = append(users, web.User(u))
	}
	return users
}

// failed logs Redis's original error, which clients don't get. During an outage of Redis there may be thousands per
// second, so errors that differ only in numbers, such as ports, count as one kind.
func (f *httpServer) failed(err error) {
	f.spare.Say(numbers.ReplaceAllString(err.Error(), "0"), "a request failed: "+err.Error())
}

var numbers = regexp.MustCompile(`[0-9]+`)

// logLines writes lines to the error log.
type logLines struct{ log *logger.Logger }

func (l logLines) Write(line []byte) (int, error) {
	l.log.Error("HTTP server: " + strings.TrimSpace(string(line)))
	return len(line), nil
}

// serve serves until ctx is done. If it ends earlier, it logs that, and the daemon continues without
// it.
func (f *httpServer) serve(ctx context.Context, log *logger.Logger) {
	if err := f.web.Serve(ctx, f.listener); err != nil {
		log.Error(fmt.Sprintf("The HTTP server has ended: %v", err))
	}
	f.close()
}

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
