package client_test

import (
	"crypto/tls"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
)

func TestParseURL(t *testing.T) {
	type options = client.PoolOptions
	for url, want := range map[string]options{
		"redis://":                                          {Addr: "127.0.0.1:6379"},
		"redis://localhost":                                 {Addr: "localhost:6379"},
		"redis://localhost/":                                {Addr: "localhost:6379"},
		"redis://localhost:7000/3":                          {Addr: "localhost:7000", Database: 3},
		"redis://:7000":                                     {Addr: "127.0.0.1:7000"},
		"redis://user:secret@h":                             {Addr: "h:6379", Username: "user", Password: "secret"},
		"redis://secret@h":                                  {Addr: "h:6379", Password: "secret"},
		"redis://:secret@h":                                 {Addr: "h:6379", Password: "secret"},
		"redis://user:@h":                                   {Addr: "h:6379", Username: "user"},
		"redis://user:p%40%2F%3A%23%3F%25s@h/1":             {Addr: "h:6379", Username: "user", Password: "p@/:#?%s", Database: 1},
		"redis://[::1]":                                     {Addr: "[::1]:6379"},
		"redis://:secret@[2001:db8::1]:7000/2":              {Addr: "[2001:db8::1]:7000", Password: "secret", Database: 2},
		"REDIS://h":                                         {Addr: "h:6379"},
		"unix:///run/redis.sock":                            {Addr: "/run/redis.sock"},
		"unix://user:secret@/run/redis.sock?db=4":           {Addr: "/run/redis.sock", Username: "user", Password: "secret", Database: 4},
		"redis-sentinel://user:p%40s@a,b:7000/2?master=m":   {Sentinels: []string{"a:26379", "b:7000"}, SentinelMaster: "m", Username: "user", Password: "p@s", Database: 2},
		"redis-cluster://user:p%40s@a,b:7000?partitions=16": {Cluster: []string{"a:6379", "b:7000"}, Username: "user", Password: "p@s", Partitions: 16},
		"redis-cluster://a/0?partitions=4":                  {Cluster: []string{"a:6379"}, Partitions: 4},
		"redis-sentinel://[::1],[::2]:7?master=m":           {Sentinels: []string{"[::1]:26379", "[::2]:7"}, SentinelMaster: "m"},
		"redis-sentinel://secret@a?master=m&sentinel_username=u&sentinel_password=s%26t": {Sentinels: []string{"a:26379"}, SentinelMaster: "m", Password: "secret", SentinelUsername: "u", SentinelPassword: "s&t"},
		"redis-sentinel://a?master=m&sentinel_password=a+b%20c%2Bd%26":                   {Sentinels: []string{"a:26379"}, SentinelMaster: "m", SentinelPassword: "a+b c+d&"},
		"unix:///run/my%20redis.sock":                                                    {Addr: "/run/my redis.sock"},
	} {
		got, err := client.ParseURL(url)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
	got, err := client.ParseURL("rediss://user:secret@h:7000/1")
	if err != nil || got.Addr != "h:7000" || got.Password != "secret" || got.Database != 1 {
		t.Errorf("rediss: %+v, %v", got, err)
	}
	if got.TLS == nil || got.TLS.InsecureSkipVerify || got.TLS.MinVersion < tls.VersionTLS12 {
		t.Errorf("rediss: TLS %+v", got.TLS)
	}
}

// ParseURL refuses an invalid URL instead of guessing, and does not quote it, because it may contain a password.
func TestParseURLErrors(t *testing.T) {
	for url, part := range map[string]string{
		"":                                               "redis://",
		"http://:s3cret@h":                               "redis://",
		"user:s3cret@h:6379":                             "redis://",
		"s3cret://h":                                     "redis://",
		"redis:h:6379":                                   "redis://",
		"redis://:s3cret@h:port":                         "malformed",
		"redis://:s3cret@h/%zz":                          "malformed",
		"redis://:s3cret%zz@h":                           "malformed",
		"redis://:s3cret/more@h":                         "malformed",
		"redis://:s3cret#more@h":                         "malformed",
		"redis://:s3cret?more@h":                         "malformed",
		"redis://:s3cret with space@h":                   "malformed",
		"redis://:#s3cret@h":                             "no meaning",
		"redis://:?s3cret@h":                             "no meaning",
		"redis://user/s3cret@h":                          "database",
		"redis://:s3cret@h/x":                            "database",
		"redis://:s3cret@h/1/2":                          "database",
		"redis://:s3cret@h?db=1":                         "no meaning",
		"redis://:s3cret@h/1#more":                       "no meaning",
		"redis://:s3cret@h?a;b":                          "no meaning",
		"unix://:s3cret@run/redis":                       "unix:///",
		"unix:run/redis.sock":                            "unix://",
		"unix:///run/r.sock?db=x":                        "database",
		"unix:///run/r.sock?base=1":                      "no meaning",
		"redis-sentinel://:s3cret@a,b":                   "?master=",
		"redis-sentinel://:s3cret@?master=m":             "?master=",
		"redis-sentinel://:s3cret@a,:1?master=m":         "?master=",
		"redis-sentinel://:s3cret@a?master=m&database=1": "no meaning",
		"redis-sentinel://:s3cret@a:x:y?master=m":        "?master=",
		"redis-cluster://:s3cret@,b?partitions=4":        "?partitions=16",
		"redis-cluster://:s3cret@a/1?partitions=4":       "database 0",
		"redis-cluster://:s3cret@a?partitions=1025":      "partitions is not from 1 to 1024",
		"redis-sentinel://user:s3cret?master=m":          "?master=",
		"redis-sentinel://a,user:s3cret?master=m":        "?master=",
		"redis-sentinel://:s3cret@a:0?master=m":          "?master=",
		"redis-sentinel://:s3cret@a:65536?master=m":      "?master=",
		"redis-sentinel://:s3cret@a:+1?master=m":         "?master=",
		"redis-sentinel://:s3cret@a, b?master=m":         "?master=",
		"redis-cluster://user:s3cret?partitions=4":       "?partitions=16",
		"redis-sentinels://:s3cret@a?master=m":           "redis-sentinel://",
	} {
		o, err := client.ParseURL(url)
		if err == nil {
			t.Errorf("%s: read as %+v", url, o)
			continue
		}
		expectText(t, url, err, "redis URL: ", part)
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: the error is not ErrInvalid", url)
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error tells the password: %v", url, err)
		}
		if _, err := client.Open(url); err == nil {
			t.Errorf("%s: Open accepts it", url)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, parts := range [][3]string{{"redis://", "", "@localhost:6379/0"}, {"rediss://user:", "%20", "@[::1]"}, {"unix://", "a/b", "@/run/redis.sock?db=1"}, {"", ":", ""}} {
		f.Add(parts[0], parts[1], parts[2])
	}
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		o, err := client.ParseURL(before + "s3cret" + secret + after)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells the password: %v", err)
		}
		if err == nil && ((o.Addr == "") == (len(o.Sentinels) == 0) || o.Database < 0) {
			t.Errorf("read as %+v", o)
		}
	})
}

func options(t *testing.T, url string) client.PoolOptions {
	t.Helper()
	o, err := client.ParseURL(url)
	check(t, err)
	return o
}

// A sentinel is host:port. Invalid values are not quoted, because they may contain a password.
func TestInvalidSentinels(t *testing.T) {
	t.Parallel()
	for sentinels, part := range map[string]string{
		"a:1,user:s3cret":   "number 2",
		"user:s3cret@a:1":   "number 1",
		"a:1, b:1":          "number 2",
		"a:1,b:0":           "number 2",
		"a:65536":           "number 1",
		"a:1,,b:1":          "number 2",
		"a":                 "number 1",
		"a b:1":             "number 1",
		"a:1,b:1:2":         "number 2",
		"s3cret,a:1":        "number 1",
		"a:1\n":             "number 1",
		"[::1]:1,[::1]:-1":  "number 2",
		"[::1]:1,[::1]:1.0": "number 2",
	} {
		_, err := client.OpenPool(client.PoolOptions{Sentinels: strings.Split(sentinels, ","), SentinelMaster: "m"})
		expectText(t, sentinels, err, "sentinels: ", part, "host:port")
		if !errors.Is(err, client.ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", sentinels, err)
		}
	}
}
