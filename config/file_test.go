package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadReadsValues(t *testing.T) {
	for written, want := range map[string]string{
		` = plain`:                       "plain",
		`=plain`:                         "plain",
		`: plain`:                        "plain",
		` = a=b:c`:                       "a=b:c",
		` =   with inner  spaces   `:     "with inner  spaces",
		" = crlf\r":                      "crlf",
		" =\u00a0hard space\u00a0":       "hard space",
		` =`:                             "",
		` = ; comment`:                   "",
		` = #`:                           "",
		` = ""`:                          "",
		` = ''`:                          "",
		" = ``":                          "",
		` = value ; comment ; # more`:    "value",
		` = value # it's a comment`:      "value",
		` = value ; with "quotes"`:       "value",
		` = it's`:                        "it's",
		` = mid"dle" quotes`:             `mid"dle" quotes`,
		` = C:\dir\file`:                 `C:\dir\file`,
		` = C:\dir\`:                     `C:\dir\`,
		` = \"x\"`:                       `\"x\"`,
		` = "a#b;c"`:                     "a#b;c",
		` = "a" ; "b"`:                   "a",
		` = "a"; comment`:                "a",
		` = "  spaces  "`:                "  spaces  ",
		` = "a \"b\" c"`:                 `a "b" c`,
		` = "C:\dir\n"`:                  `C:\dir\n`,
		` = "a\\b"`:                      `a\\b`,
		` = "it's"`:                      "it's",
		` = 'single ones'`:               "single ones",
		` = 'single' ; it's a comment`:   "single",
		` = '"'`:                         `"`,
		" = `a#b;\"c\"\\`":               `a#b;"c"\`,
		" = `a` ; `b`":                   "a",
		` = %(host)s`:                    "%(host)s",
		` = %(`:                          "%(",
		` = 100%`:                        "100%",
		` = $HOME`:                       "$HOME",
		` = "` + "`" + `"`:               "`",
		` = ü€😀`:                         "ü€😀",
		` = = `:                          "=",
		` = [redis]`:                     "[redis]",
		` = """`[:4] + `\"" ; no triple`: `"`,
	} {
		got, err := loadText("[redis]\nhost = 127.0.0.1\npassword" + written + "\n")
		if want := changed(func(c *Config) { c.Redis.Password = want }); err != nil || got != want {
			t.Errorf("password%s\n got %q, %v\nwant %q", written, got.Redis.Password, err, want.Redis.Password)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const port, host = "f:2: redis.port: ", "f:2: redis.host: "
	const hostWanted = "want a name, an address, or the path of a unix socket that begins with /, ./ or ../"
	const numberSign = "the # begins a comment: put the value in double quotes, or a space on both sides of the #"
	const semicolon = "the ; begins a comment: put the value in double quotes, or a space on both sides of the ;"
	const more = "there is more behind the closing quote: write \\\" for a quote within \"…\", or put the value in backticks"
	for line, want := range map[string]string{
		// numbers
		`port = 0`:                     port + `"0" is out of range: want a whole number from 1 to 65535`,
		`port = -1`:                    port + `"-1" is out of range: want a whole number from 1 to 65535`,
		`port = 65536`:                 port + `"65536" is out of range: want a whole number from 1 to 65535`,
		`port = 99999999999999999999`:  port + `"99999999999999999999" is out of range: want a whole number from 1 to 65535`,
		`port = 010`:                   port + `"010" is not in plain decimal digits: write 10`,
		`port = 08`:                    port + `"08" is not in plain decimal digits: write 8`,
		`port = 0x1F`:                  port + `"0x1F" is not in plain decimal digits: write 31`,
		`port = 6_379`:                 port + `"6_379" is not in plain decimal digits: write 6379`,
		`port = +5`:                    port + `"+5" is not in plain decimal digits: write 5`,
		`port = 6379.0`:                port + `"6379.0" is not a whole number: want a whole number from 1 to 65535`,
		`port = redis`:                 port + `"redis" is not a whole number: want a whole number from 1 to 65535`,
		`port = %(max_idle)s`:          port + `"%(max_idle)s" is not a whole number: want a whole number from 1 to 65535`,
		`conn_max_lifetime = -2`:       `f:2: redis.conn_max_lifetime: "-2" is out of range: want a whole number of seconds from -1 to 2147483647`,
		`database = -1`:                `f:2: redis.database: "-1" is out of range: want a whole number from 0 to 2147483647`,
		`max_active = 2147483648`:      `f:2: redis.max_active: "2147483648" is out of range: want a whole number from -1 to 2147483647`,
		`idle_timeout = 1h`:            `f:2: redis.idle_timeout: "1h" is not a whole number: want a whole number of seconds from -1 to 2147483647`,
		`read_timeout = 0`:             `f:2: redis.read_timeout: "0" is out of range: want a whole number of milliseconds from 1 to 2147483647`,
		"[delayer]\ntimer_interval=0":  `f:3: delayer.timer_interval: "0" is out of range: want a whole number of milliseconds from 1 to 86400000`,
		"[delayer]\ntimer_interval=1s": `f:3: delayer.timer_interval: "1s" is not a whole number: want a whole number of milliseconds from 1 to 86400000`,

		// words
		`tls = yes`:                  `f:2: redis.tls: "yes" is unknown: want true or false`,
		"[delayer]\nlog_format=JSON": `f:3: delayer.log_format: "JSON" is unknown: want text or json`,

		// texts
		`prefix = my queue:`:             `f:2: redis.prefix: "my queue:" has a space: want the beginning of every key's name, such as "delayer:"`,
		`prefix = %(host)s:`:             `f:2: redis.prefix: "%(host)s" is not replaced by another key's value: write the value itself`,
		"username = a\tb":                `f:2: redis.username: has a line break, a tab or another control character: remove it`,
		"password = a\x00s3cret":         `f:2: redis.password: has a line break, a tab or another control character: remove it`,
		"password = s3cret\rport = 1\r":  `f:2: redis.password: has a line break, a tab or another control character: remove it`,
		"password = s3cret\xff":          `f:2: redis.password: is not UTF-8: save the file in that encoding`,
		"[delayer]\npid = %(error_log)s": `f:3: delayer.pid: "%(error_log)s" is not replaced by another key's value: write the value itself`,
		"[delayer]\npid = ~":             `f:3: delayer.pid: ~ is not replaced by the home folder: write the whole path`,
		"[delayer]\npid = ~/delayer.pid": `f:3: delayer.pid: ~ is not replaced by the home folder: write the whole path`,

		// hosts
		`host = 127.0.0.1:6380`:              host + `"127.0.0.1:6380" holds a port: write host = 127.0.0.1 and port = 6380`,
		`host = [::1]:6380`:                  host + `"[::1]:6380" holds a port: write host = ::1 and port = 6380`,
		`host = [redis]`:                     host + `is not a host: ` + hostWanted,
		`host = [::1`:                        host + `is not a host: ` + hostWanted,
		`host = redis:`:                      host + `is not a host: ` + hostWanted,
		`host = redis://u:s3cret@h:6379`:     host + `is not a host: ` + hostWanted,
		`host = s3cret@redis:6379`:           host + `is not a host: ` + hostWanted,
		`host = run/redis.sock`:              host + `is not a host: ` + hostWanted,
		`host = one two`:                     host + `is not a host: ` + hostWanted,
		`host = "/run/%(port)s/redis.sock" `: host + `"%(port)s" is not replaced by another key's value: write the value itself`,

		// comments that may be part of a value
		`password = s3cret#def`:     `f:2: redis.password: ` + numberSign,
		`password = s3cret;def`:     `f:2: redis.password: ` + semicolon,
		`password = 's3cret#def'`:   `f:2: redis.password: ` + numberSign,
		`password =#s3cret`:         `f:2: redis.password: ` + numberSign,
		`password = #s3cret`:        `f:2: redis.password: ` + numberSign,
		`password = a"b # s3cret"`:  `f:2: redis.password: ` + numberSign,
		"password = a`b ; s3cret` ": `f:2: redis.password: ` + semicolon,

		// quotes
		`password = "s3cret`:               `f:2: redis.password: the closing quote is missing`,
		`password = "`:                     `f:2: redis.password: the closing quote is missing`,
		"password = `s3cret":               `f:2: redis.password: the closing quote is missing`,
		`password = "s3cret\"`:             `f:2: redis.password: the closing quote is missing (\" is a quote within the value): put a value that ends with \ in backticks`,
		`password = "s3cret"tail`:          `f:2: redis.password: ` + more,
		`password = "s3cret" "b"`:          `f:2: redis.password: ` + more,
		"password = `s3cret` b`":           `f:2: redis.password: ` + more,
		`password = 's3 ; cret'`:           `f:2: redis.password: ` + semicolon,
		`password = "s3cret\xff"` + "\xff": `f:2: redis.password: ` + more,

		// keys
		`= s3cret`:           `f:2: is neither [section] nor key = value: begin a comment with ;`,
		`: s3cret`:           `f:2: is neither [section] nor key = value: begin a comment with ;`,
		`password s3cret`:    `f:2: redis.password: there is no = behind the key: want password = value`,
		`password s3c=ret`:   `f:2: redis.password: there is no = behind the key: want password = value`,
		`password s=3cret`:   `f:2: redis.password: there is no = behind the key: want password = value`,
		`tls`:                `f:2: redis.tls: there is no = behind the key: want tls = value`,
		`s3cret and nothing`: `f:2: is neither [section] nor key = value: begin a comment with ;`,
		`// s3cret`:          `f:2: is neither [section] nor key = value: begin a comment with ;`,

		`"password = s3cret"`: `f:2: redis.password: a key is written without quotes`,

		// what would leave the connection unencrypted
		`tls cert = x`:          `f:2: redis.tls cert: unknown key, did you mean tls_cert?`,
		`tsl = true`:            `f:2: redis.tsl: unknown key, did you mean tls?`,
		`tls_versoin = 1.3`:     `f:2: redis.tls_versoin: unknown key: [redis] has ` + redisKeys,
		"[delayer]\ntls = true": `f:3: delayer.tls: belongs to [redis]`,

		// sections
		`[delayer`:           `f:2: a section begins with [ and ends with ]: the ] is missing`,
		`[delayer ; comment`: `f:2: a section begins with [ and ends with ]: the ] is missing`,
	} {
		_, err := loadText("[redis]\n" + line + "\n")
		wantMessages(t, err, want)
		if err != nil && strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: the problem shows a secret: %v", line, err)
		}
	}
}

const redisKeys = "host, port, database, username, password, prefix, max_idle, max_active, idle_timeout, " +
	"conn_max_lifetime, connect_timeout, read_timeout, write_timeout, tls, tls_ca, tls_cert, tls_key, tls_skip_verify"

func TestLoadAcceptsSectionsInAnyShape(t *testing.T) {
	got, err := loadText("[redis] ; see [docs]\nport = 1\n[delayer]# x\n[redis]\n  database = 2\n\t; x\n")
	if want := changed(func(c *Config) { c.Redis.Port, c.Redis.Database = 1, 2 }); err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// A file that the original runs is of use here as well: what is ignored or replaced
// in it gets a warning with its line, and the rest holds.
func TestLoadWarns(t *testing.T) {
	const other = ": unknown section: want [delayer] or [redis]"
	const unknownKey = "unknown key: [redis] has " + redisKeys
	const semicolon = "the ; begins a comment: put the value in double quotes, or a space on both sides of the ;"
	none := func(*Config) {}
	for _, test := range []struct {
		text   string
		change func(*Config)
		want   []string
	}{
		// unknown keys
		{"[redis]\nprot = 1", none, []string{"2: redis.prot: unknown key, did you mean port?"}},
		{"[redis]\nHost = h", none, []string{"2: redis.Host: unknown key, did you mean host?"}},
		{"[redis]\n'host' = h", none, []string{"2: redis.'host': unknown key, did you mean host?"}},
		{"[redis]\nmax-idle = 1", none, []string{"2: redis.max-idle: unknown key, did you mean max_idle?"}},
		{"[redis]\nmax idle = 1", none, []string{"2: redis.max idle: unknown key, did you mean max_idle?"}},
		{"[redis]\n\u200bhost = h", none, []string{`2: "redis.\u200bhost": unknown key, did you mean host?`}},
		{"[redis]\nsocket = /run/r", none, []string{"2: redis.socket: " + unknownKey}},
		{"[redis]\nsocket = \"/run/r", none, []string{"2: redis.socket: " + unknownKey}},
		{"[redis]\n- = s3cret", none, []string{"2: redis.-: " + unknownKey}},
		{"[redis]\nmy s3cret = x", none, []string{"2: redis.my: " + unknownKey}},
		{"[redis]\npid = /run/d.pid", none, []string{"2: redis.pid: belongs to [delayer]"}},
		{"[delayer]\nport = 1", none, []string{"2: delayer.port: belongs to [redis]"}},
		{"port = 1\nname = d\n[delayer]", none, []string{"1: port: belongs to [redis]",
			"2: name: stands before the first section: put it below [delayer] or [redis]"}},

		// sections
		{"[mysql]\nhost = h\nhost = i\nnonsense\n[redis]\nport = 7", func(c *Config) { c.Redis.Port = 7 }, []string{"1: [mysql]" + other}},
		{"[DEFAULT]\nport = 9", none, []string{"1: [DEFAULT]" + other}},
		{"[delayer.redis]\nport = 9", none, []string{"1: [delayer.redis]" + other}},
		{"[]\nport = 9", none, []string{"1: []" + other}},
		{"[reddis]\nport = 8\nx = y\n[redis]\nport = 7", func(c *Config) { c.Redis.Port = 7 },
			[]string{"1: [reddis]: unknown section, did you mean [redis]?"}},
		{"[redis]\nport = 7\n[redis2]\nport = 8", func(c *Config) { c.Redis.Port = 7 },
			[]string{"3: [redis2]: unknown section, did you mean [redis]?"}},
		{"[redis] port = 8\nport = 7", func(c *Config) { c.Redis.Port = 7 },
			[]string{"1: there is more behind the section's ]: write it on a line of its own"}},

		// the last of several
		{"[redis]\nport = 1\nhost = a\nport = 2\nport = 3", func(c *Config) { c.Redis.Port, c.Redis.Host = 3, "a" }, []string{
			"4: redis.port: is set on line 2 already: the last one counts, keep one of the two lines",
			"5: redis.port: is set on line 4 already: the last one counts, keep one of the two lines"}},
		{"[redis]\nport = 1\n[delayer]\n[redis]\nport = 2", func(c *Config) { c.Redis.Port = 2 }, []string{
			"5: redis.port: is set on line 2 already: the last one counts, keep one of the two lines"}},

		// values
		{"[redis]\nhost =", none, []string{`2: redis.host: is empty: the default "127.0.0.1" is taken`}},
		{"[redis]\nhost=;none", none, []string{`2: redis.host: is empty: the default "127.0.0.1" is taken`}},
		{"[redis]\nhost = h\nhost = \"\"", none, []string{
			"3: redis.host: is set on line 2 already: the last one counts, keep one of the two lines",
			`3: redis.host: is empty: the default "127.0.0.1" is taken`}},
		{"[redis]\nport =", none, []string{`2: redis.port: is empty: the default "6379" is taken`}},
		{"[redis]\nmax_idle =\nprefix =\ntls =", none, []string{`2: redis.max_idle: is empty: the default "2" is taken`,
			`3: redis.prefix: is empty: the default "delayer:" is taken`, `4: redis.tls: is empty: the default "false" is taken`}},
		{"[delayer]\ntimer_interval = 500;ms", func(c *Config) { c.Delayer.TimerInterval = time.Second / 2 }, []string{
			"2: delayer.timer_interval: " + semicolon}},
		{"[delayer]\npid = /run/d;x.pid", func(c *Config) { c.Delayer.PID = absolute("/run/d") }, []string{"2: delayer.pid: " + semicolon}},
		{"[redis]\nmax_idle = 21", func(c *Config) { c.Redis.MaxIdle = 20 }, []string{
			"2: redis.max_idle: max_idle is 21 and max_active is 20: no more than 20 are kept"}},
		{"[redis]\nmax_active = 1\nmax_idle = 9", func(c *Config) { c.Redis.MaxActive, c.Redis.MaxIdle = 1, 1 }, []string{
			"3: redis.max_idle: max_idle is 9 and max_active is 1: no more than 1 are kept"}},
	} {
		got, warnings, err := load(test.text)
		var messages []string
		for _, w := range warnings {
			messages = append(messages, w.Error())
		}
		for i := range test.want {
			test.want[i] = strings.Replace("f:"+test.want[i], ": ", ": warning: ", 1)
		}
		if want := changed(test.change); err != nil || got != want || !slices.Equal(messages, test.want) {
			t.Errorf("%q: %v\n got %+v\nwant %+v\n got %q\nwant %q", test.text, err, got, want, messages, test.want)
		}
		if strings.Contains(warnings.Error(), "s3") {
			t.Errorf("%q: the warning shows a secret: %v", test.text, warnings)
		}
	}
}

// What the original reads and ours does, too, without a word.
func TestLoadAcceptsOtherSpellings(t *testing.T) {
	for line, change := range map[string]func(*Config){
		"\"host\" = h":                 func(c *Config) { c.Redis.Host = "h" },
		"`port`: 7":                    func(c *Config) { c.Redis.Port = 7 },
		"host = [::1]":                 func(c *Config) { c.Redis.Host = "::1" },
		"host = [fe80::1%eth0]":        func(c *Config) { c.Redis.Host = "fe80::1%eth0" },
		"max_idle = -1":                func(c *Config) { c.Redis.MaxIdle = 0 },
		"max_active = -1":              func(c *Config) { c.Redis.MaxActive = 0 },
		"idle_timeout = -1":            func(c *Config) { c.Redis.IdleTimeout = 0 },
		"conn_max_lifetime = -1":       func(c *Config) { c.Redis.ConnMaxLifetime = 0 },
		"max_active = 1":               func(c *Config) { c.Redis.MaxActive, c.Redis.MaxIdle = 1, 1 },
		"username =;none":              func(*Config) {},
		`password = """a#"b"""`:        func(c *Config) { c.Redis.Password = `a#"b` },
		`password = """a""" ; """b"""`: func(c *Config) { c.Redis.Password = "a" },
		`password = 's3cret`:           func(c *Config) { c.Redis.Password = "'s3cret" },
		`password = 's3''cret'`:        func(c *Config) { c.Redis.Password = "'s3''cret'" },
		`password = """"""`:            func(*Config) {},
	} {
		got, err := loadText("[redis]\n" + line)
		if want := changed(change); err != nil || got != want {
			t.Errorf("%s: %v\n got %+v\nwant %+v", line, err, got, want)
		}
	}
}

// All keys of a misspelt section would be left on their defaults: delayer would
// serve another Redis than the one that is meant.
func TestLoadRefusesAMisspeltSection(t *testing.T) {
	for header, meant := range map[string]string{
		"[reddis]": "redis", "[Delayer]": "delayer", "[ delayer ]": "delayer", "[redis1]": "redis",
	} {
		_, err := loadText("\n" + header + "\n")
		wantMessages(t, err, fmt.Sprintf("f:2: %s: unknown section, did you mean [%s]?", header, meant))
	}
}

func TestLoadReportsKeysOutsideASection(t *testing.T) {
	_, err := loadText("host = a\nfoo = b\npid = c\nbar\n[redis]\n")
	wantMessages(t, err,
		"f:1: warning: host: belongs to [redis]",
		"f:2: warning: foo: stands before the first section: put it below [delayer] or [redis]",
		"f:3: warning: pid: belongs to [delayer]",
		"f:4: is neither [section] nor key = value: begin a comment with ;")
}

func TestLoadShowsNoPieceOfASecretThatGoesOn(t *testing.T) {
	for start, wantFirst := range map[string][]string{
		`password = "s3a`: {"f:2: redis.password: the closing quote is missing"},
		`password = s3a\`: nil,
		"password = x\npassword = `s3a": {
			"f:3: warning: redis.password: is set on line 2 already: the last one counts, keep one of the two lines",
			"f:3: redis.password: the closing quote is missing"},
	} {
		_, err := loadText("[redis]\n" + start + "\ns3b = s3c\n; comment\n[s3d]\nport = x\ns3e = f\n\ng = h\n")
		_, afterBlank := loadText("[redis]\n" + start + "\n\ng = h\n")
		n := 3 + strings.Count(start, "\n")
		goesOn := func(line int) string {
			return fmt.Sprintf("f:%d: sets no key: if it belongs to the value on line %d, that must be on one line", line, n-1)
		}
		wantMessages(t, err, append(wantFirst,
			goesOn(n), goesOn(n+2),
			fmt.Sprintf(`f:%d: redis.port: "x" is not a whole number: want a whole number from 1 to 65535`, n+3),
			fmt.Sprintf("f:%d: warning: redis.s3e: unknown key: [redis] has %s", n+4, redisKeys),
			fmt.Sprintf("f:%d: warning: redis.g: unknown key: [redis] has %s", n+6, redisKeys))...)
		wantMessages(t, afterBlank, append(wantFirst, fmt.Sprintf("f:%d: warning: redis.g: unknown key: [redis] has %s", n+1, redisKeys))...)
	}
}

func TestLoadEndsASecretAtAKnownSection(t *testing.T) {
	_, err := loadText("[redis]\npassword = \"s3a\n[delayer]\nx = 1")
	wantMessages(t, err, "f:2: redis.password: the closing quote is missing",
		"f:4: warning: delayer.x: unknown key: [delayer] has pid, timer_interval, access_log, error_log, log_format, dead_max_age, dead_max")
}

func TestLoadReportsEverythingAtOnceByLine(t *testing.T) {
	_, err := loadText(`[reddis]
prot = 6379
password = "x
host = a:b:c
nonsense
tls_cert = c
[delayer]
timer_interval = 0
`, "DELAYER_REDIS_DATABASE=x", "DELAYER_REDIS_A=1")
	wantMessages(t, err,
		"f:1: [reddis]: unknown section, did you mean [redis]?",
		"f:2: warning: redis.prot: unknown key, did you mean port?",
		"f:3: redis.password: the closing quote is missing",
		"f:4: redis.host: is not a host: want a name, an address, or the path of a unix socket that begins with /, ./ or ../",
		"f:5: is neither [section] nor key = value: begin a comment with ;",
		"f:6: redis.tls_cert: is of use with tls = true only",
		"f:6: redis.tls_cert: needs tls_key as well",
		`f:8: delayer.timer_interval: "0" is out of range: want a whole number of milliseconds from 1 to 86400000`,
		`DELAYER_REDIS_DATABASE: "x" is not a whole number: want a whole number from 0 to 2147483647`,
		"DELAYER_REDIS_A: unknown variable: DELAYER_REDIS_… is followed by "+strings.ToUpper(redisKeys))
}

func TestLoadChecksAKeyNextToItsMistypedTwin(t *testing.T) {
	_, err := loadText("[redis]\nport = 0\nprot = 1\n[delayer]\npid = C:\\dir\\\nacces_log = a\nerror_log = \"b\nlog_fromat = text")
	wantMessages(t, err,
		`f:2: redis.port: "0" is out of range: want a whole number from 1 to 65535`,
		"f:3: warning: redis.prot: unknown key, did you mean port?",
		"f:6: warning: delayer.acces_log: unknown key, did you mean access_log?",
		"f:7: delayer.error_log: the closing quote is missing",
		"f:8: warning: delayer.log_fromat: unknown key, did you mean log_format?")
}
