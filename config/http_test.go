package config

import (
	"strings"
	"testing"
)

const (
	goodToken   = "0123456789abcdef"
	tokenWanted = "want 16 or more letters, digits and punctuation, so that it can't be guessed"
	weakToken   = "want one that can't be guessed, with at least 6 different characters and no repeated part; `openssl rand -hex 16` makes one"
	usersWanted = "want name:password, name:password; a password has 8 or more characters and no comma"
)

// Each problem fits one line and reveals no secret.
func TestHTTPIsRefused(t *testing.T) {
	const listen = "f:2: http.listen: want host:port, such as 127.0.0.1:9277 or [::1]:9277"
	const hosts = "f:2: http.hosts: want names or addresses without a port, separated by commas"
	const numberSign = "the # starts a comment: put the value in double quotes, or a space on both sides of the #"
	const control = "has a line break, a tab, another control character, or bytes that are not UTF-8: remove them"
	for message, lines := range map[string][]string{
		listen: {
			"listen = 127.0.0.1", "listen = 9277", "listen = ::1", "listen = [::1:9277", "listen = http://127.0.0.1:9277", "listen = 127.0.0.1:",
			"listen = 127.0.0.1:http", "listen = 127.0.0.1:65536", "listen = 127.0.0.1:09277", "listen = a b:9277", "listen = *:9277",
		},
		"f:2: http.listen: " + control:    {"listen = 127.0.0.1:9277\x1b"},
		"f:2: http.token: " + tokenWanted: {"token = s3cret789012345", "token = s3cret", "token = s3cret s3cret s3cret", "token = s3cretü0123456789"},
		"f:2: http.users: " + usersWanted: {
			"users = bob:s3cret7", "users = s3cretpass", "users = bob:s3cretpass, s3", "users = :s3cretpass", "users = bob:s3cret",
			"users = s3:longenough,s4:s3cret",
		},
		"f:2: http.token: " + control:    {"token = s3cret\t0123456789"},
		"f:2: http.token: " + numberSign: {"token = s3cret0123456789#x"},
		"f:2: http.token: " + weakToken: {
			"token = aaaaaaaaaaaaaaaa", "token = s3cs3cs3cs3cs3cs3", "token = abcdefghabcdefgh", "token = abcdefghabcdefghabcdef",
			"token = 1111111111112345",
		},
		`f:2: http.users: want each user once: user 2 has the name of another one`: {"users = al:s3cret01,al:s3cret02"},
		"f:2: http.users: " + numberSign:                                           {"users = bob:s3cretpass#a"},
		"f:2: http.users: " + control:                                              {"users = bob:s3cret\tpass"},
		hosts:                                                                      {"hosts = a.example:80", "hosts = 10.0.0.1:80", "hosts = a, https://a", "hosts = *"},
		`f:2: http.max_body: want a whole number from 1024 to 536870912, in decimal digits without leading zeros`: {"max_body = 1023"},
		`f:2: http.queue_block_timeout: want a whole number of seconds from 1 to 3600, in decimal digits without leading zeros`: {
			"queue_block_timeout = 0", "queue_block_timeout = 3601",
		},
		`f:2: http.metrics_topics: want a whole number from 0 to 100000, in decimal digits without leading zeros`:                {"metrics_topics = 100001"},
		`f:2: http.ready_max_late: want a whole number of seconds from 0 to 2147483647, in decimal digits without leading zeros`: {"ready_max_late = 1m"},
		`f:2: http.insecure: want true or false`: {"insecure = yes"},
		// The original's files have no such section, so a typo is an error.
		"f:2: http.tokn: unknown key, did you mean token?":          {"tokn = s3cret"},
		"f:2: http.read-only: unknown key, did you mean read_only?": {"read-only = true"},
		"f:2: unknown key: [http] has " + httpKeys:                  {"address = s3cret"},
		"f:2: http.tls: belongs to [redis]":                         {"tls = true"},
		"f:2: http.tls_crt: unknown key, did you mean tls_cert?":    {"tls_crt = a\ntls_key = b"},
		"f:2: http.tls_cert: needs tls_key as well":                 {"tls_cert = a"},
		"f:2: http.tls_key: needs tls_cert as well":                 {"tls_key = a"},
		"f:3: redis.token: belongs to [http]":                       {"[redis]\ntoken = s3cret"},
		"f:3: delayer.listen: belongs to [http]":                    {"[delayer]\nlisten = x:1"},
	} {
		for _, line := range lines {
			wantMessages(t, problems("[http]\n"+line), message)
		}
	}
	wantMessages(t, problems("[htpp]\nlisten = 127.0.0.1:1"), "f:1: unknown section, did you mean [http]?")
}

// The server accepts other machines without a token or users only if the configuration allows it
// explicitly.
func TestHTTPOpenToOthers(t *testing.T) {
	const open = "f:2: http.listen: lets other machines read, push and purge jobs: set token or users, listen on 127.0.0.1, or set insecure = true"
	const unencrypted = "f:2: warning: http.listen: token and passwords travel unencrypted: set tls_cert and tls_key, unless a proxy encrypts"
	const token, users, tls = "token = " + goodToken, "users = bob:s3cretpass", "\ntls_cert = c\ntls_key = k"
	for _, address := range []string{"127.0.0.1:9277", "127.9.9.9:0", "[::1]:9277", "[::ffff:127.0.0.1]:1", "localhost:9277", "LocalHost:9277"} {
		for _, more := range []string{"", token, users, "insecure = true", tls} {
			got, err := loadText("[http]\nlisten = " + address + "\n" + more)
			if err != nil || got.HTTP.Listen != address {
				t.Errorf("%s, %q: got %q, %v", address, more, got.HTTP.Listen, err)
			}
		}
	}
	for _, address := range []string{":9277", "0.0.0.0:9277", "[::]:9277", "10.0.0.1:0", "[fe80::1%eth0]:9277", "jobs.example.com:9277", "localhost.example.com:9277", "127.1:9277"} {
		for more, want := range map[string][]string{
			"":                          {open},
			tls:                         {open},
			"insecure = false":          {open},
			"insecure = true":           nil,
			token:                       {unencrypted},
			users:                       {unencrypted},
			token + "\ninsecure = true": {unencrypted},
			token + tls:                 nil,
			users + tls:                 nil,
			// A consequence of another problem is not reported.
			"token = s3cret":         {"f:3: http.token: " + tokenWanted},
			"tokken = s3cret":        {"f:3: http.tokken: unknown key, did you mean token?"},
			"insecure = on":          {`f:3: http.insecure: want true or false`},
			token + "\ntls_cert = c": {"f:4: http.tls_cert: needs tls_key as well"},
		} {
			wantMessages(t, problems("[http]\nlisten = "+address+"\n"+more), want...)
		}
	}
	got, err := loadText("[http]\nlisten = 0.0.0.0:9277", "DELAYER_HTTP_TOKEN="+goodToken, "DELAYER_HTTP_LISTEN=127.0.0.1:1")
	if err != nil || got.HTTP.Token != goodToken || got.HTTP.Listen != "127.0.0.1:1" {
		t.Errorf("from the environment: %+v, %v", got.HTTP, err)
	}
	wantMessages(t, problems("[http]\nlisten = 127.0.0.1:1", "DELAYER_HTTP_LISTEN=:1"), strings.Replace(open, "f:2: http.listen", "DELAYER_HTTP_LISTEN", 1))
}

func TestHTTPLists(t *testing.T) {
	wantChanged(t, func(c *Config) {
		c.HTTP.Users = []User{{"alice", "12345678"}, {"bob", "#;\"é :%(x)s"}}
		c.HTTP.Hosts = []string{"a", "B_c.example.", "::1"}
	}, "[http]\nusers = \" alice:12345678 ,, bob:#;\\\"é :%(x)s, \"\nhosts = a, ,B_c.example.,::1")
	wantChanged(t, none, "[http]\nusers = alice:12345678\nhosts = a\ntoken = "+goodToken, "DELAYER_HTTP_USERS=", "DELAYER_HTTP_HOSTS=", "DELAYER_HTTP_TOKEN=")
}
