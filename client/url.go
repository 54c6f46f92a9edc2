package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/fleet"
)

// ParseURL reads a Redis URL:
//
//	redis://[user:password@]host[:port][/database]
//	rediss://…                                       the same over TLS
//	unix://[user:password@]/path/of/redis.sock[?db=database]
//	redis-sentinel://[user:password@]host[:port],host[:port],…[/database]?master=name
//	rediss-sentinel://…                              the same over TLS
//	redis-cluster://[user:password@]host[:port],host[:port],…?partitions=16
//	rediss-cluster://…                               the same over TLS
//
// Sentinels may have a user of their own: &sentinel_username=… and &sentinel_password=…; their port is 26379.
//
// &partitions=16 is PoolOptions.Partitions.
//
// A user part without a colon is a password, as in redis-cli. Special
// characters are escaped as in any URL: "@" is %40, "&" is %26, "%" is %25, a blank is %20; "+" is itself.
// No error quotes the URL, for there may be a password in it.
func ParseURL(rawURL string) (PoolOptions, error) {
	o, err := parseURL(rawURL)
	if err != nil {
		return PoolOptions{}, fmt.Errorf("delayer: %w", invalid("redis URL", err.Error()))
	}
	return o, nil
}

const (
	wantScheme = "want one that begins with redis://, rediss://, unix://, redis-sentinel://, rediss-sentinel://, redis-cluster:// or rediss-cluster://"
	wantURL    = "want redis://[user:password@]host[:port][/database]"
)

func parseURL(rawURL string) (o PoolOptions, err error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return PoolOptions{}, errors.New(wantScheme)
	}
	var hosts []string
	switch scheme = strings.ToLower(scheme); {
	case strings.HasSuffix(scheme, "-sentinel"):
		hosts, rest = cutHosts(rest, "26379")
	case strings.HasSuffix(scheme, "-cluster"):
		hosts, rest = cutHosts(rest, "6379")
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		// The cause quotes what it stumbled on.
		return PoolOptions{}, errors.New("it is malformed: " + wantURL + ", with %40 for @ in a password and the like")
	}
	if u.User != nil {
		password, both := u.User.Password()
		o.Username, o.Password = u.User.Username(), password
		if !both {
			o.Username, o.Password = "", u.User.Username()
		}
	}
	database := strings.TrimPrefix(u.Path, "/")
	query, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // it is no form
	if err := o.readPartitions(query); err != nil {
		return PoolOptions{}, err
	}
	if strings.HasPrefix(scheme, "rediss") {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch scheme {
	case "redis", "rediss":
		o.Addr = net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "6379"))
	case "unix":
		if u.Host != "" || u.Path == "" {
			return PoolOptions{}, errors.New("want unix:///path/of/redis.sock")
		}
		o.Addr, database = path.Clean(u.Path), taken(query, "db")
	case "redis-sentinel", "rediss-sentinel":
		o.Sentinels, o.SentinelMaster = hosts, taken(query, "master")
		o.SentinelUsername, o.SentinelPassword = taken(query, "sentinel_username"), taken(query, "sentinel_password")
		if wrong := o.checkSentinels(); wrong != nil {
			return PoolOptions{}, errors.New("want redis-sentinel://host[:port],host[:port]?master=name")
		}
	case "redis-cluster", "rediss-cluster":
		o.Cluster = hosts
		if checkAddrs("cluster", hosts) != nil {
			return PoolOptions{}, errors.New("want redis-cluster://host[:port],host[:port]?partitions=16")
		}
	default:
		return PoolOptions{}, errors.New(wantScheme)
	}
	if err != nil || len(query) > 0 || u.Fragment != "" || u.Opaque != "" {
		return PoolOptions{}, errors.New("something in it has no meaning here: " + wantURL + ", with %23 for # and %3F for ? in a password")
	}
	err = o.readDatabase(database)
	return o, err
}

func (o *PoolOptions) readDatabase(text string) (err error) {
	if text == "" {
		return nil
	}
	if o.Database, err = strconv.Atoi(text); err != nil || o.Database < 0 {
		return errors.New("the database is not a number from 0")
	}
	if len(o.Cluster) > 0 && o.Database != 0 {
		return errors.New("a cluster has the database 0 only")
	}
	return nil
}

func taken(query url.Values, name string) string {
	value := query.Get(name)
	query.Del(name)
	return value
}

func (o *PoolOptions) readPartitions(query url.Values) (err error) {
	if n := taken(query, "partitions"); n != "" {
		if o.Partitions, err = strconv.Atoi(n); err != nil || o.Partitions < 1 || o.Partitions > fleet.MaxPartitions {
			return fmt.Errorf("the number of partitions is not from 1 to %d", fleet.MaxPartitions)
		}
	}
	return nil
}

// cutHosts cuts the hosts out of the URL behind its scheme, because net/url accepts only one. Hosts without a port
// get that port.
func cutHosts(rest, port string) (hosts []string, without string) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndex(rest[:end], "@") + 1
	hosts = strings.Split(rest[begin:end], ",")
	for i, host := range hosts {
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			hosts[i] = host + ":" + port
		}
	}
	return hosts, rest[:begin] + rest[end:]
}
