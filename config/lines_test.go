package config

import (
	"fmt"
	"strings"
	"testing"
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
	const directComment = "right behind another character begins a comment: put the value in double quotes, or a space before the comment"
	const more = "there is more behind the closing quote: write \\\" for a quote within \"…\", or put the value in backticks"
	for line, want := range map[string]string{
		// numbers
		`port =`:                       port + `is empty: want a whole number from 1 to 65535`,
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
		`database = -1`:                `f:2: redis.database: "-1" is out of range: want a whole number from 0 to 2147483647`,
		`max_active = 2147483648`:      `f:2: redis.max_active: "2147483648" is out of range: want a whole number from 0 to 2147483647`,
		`idle_timeout = 1h`:            `f:2: redis.idle_timeout: "1h" is not a whole number: want a whole number of seconds from 0 to 2147483647`,
		`conn_max_lifetime = -1`:       `f:2: redis.conn_max_lifetime: "-1" is out of range: want a whole number of seconds from 0 to 2147483647`,
		`read_timeout = 0`:             `f:2: redis.read_timeout: "0" is out of range: want a whole number of milliseconds from 1 to 2147483647`,
		"[delayer]\ntimer_interval=0":  `f:3: delayer.timer_interval: "0" is out of range: want a whole number of milliseconds from 1 to 86400000`,
		"[delayer]\ntimer_interval=1s": `f:3: delayer.timer_interval: "1s" is not a whole number: want a whole number of milliseconds from 1 to 86400000`,

		// words
		`tls = yes`:                  `f:2: redis.tls: "yes" is unknown: want true or false`,
		`tls =`:                      `f:2: redis.tls: "" is unknown: want true or false`,
		"[delayer]\nlog_format=JSON": `f:3: delayer.log_format: "JSON" is unknown: want text or json`,

		// texts
		`prefix =`:                       `f:2: redis.prefix: is empty: want the beginning of every key's name, such as "delayer:"`,
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
		`host =`:                             host + `is empty: ` + hostWanted,
		`host = 127.0.0.1:6380`:              host + `"127.0.0.1:6380" holds a port: write host = 127.0.0.1 and port = 6380`,
		`host = [::1]:6380`:                  host + `"[::1]:6380" holds a port: write host = ::1 and port = 6380`,
		`host = [::1]`:                       host + `"[::1]": write the address without brackets`,
		`host = redis:`:                      host + `is not a host: ` + hostWanted,
		`host = redis://u:s3cret@h:6379`:     host + `is not a host: ` + hostWanted,
		`host = s3cret@redis:6379`:           host + `is not a host: ` + hostWanted,
		`host = run/redis.sock`:              host + `is not a host: ` + hostWanted,
		`host = one two`:                     host + `is not a host: ` + hostWanted,
		`host = "/run/%(port)s/redis.sock" `: host + `"%(port)s" is not replaced by another key's value: write the value itself`,

		// comments that may be part of a value
		`password = s3cret#def`:     `f:2: redis.password: the # ` + directComment,
		`password = s3cret;def`:     `f:2: redis.password: the ; ` + directComment,
		`password = 's3cret#def'`:   `f:2: redis.password: the # ` + directComment,
		`password =#s3cret`:         `f:2: redis.password: the # ` + directComment,
		`host=;none`:                host + `the ; ` + directComment,
		`password = #s3cret`:        `f:2: redis.password: is empty, as # begins a comment: put the value in double quotes, or a space behind the #`,
		`password = a"b # s3cret"`:  `f:2: redis.password: the # after a quote begins a comment: put the whole value in quotes`,
		"password = a`b ; s3cret` ": `f:2: redis.password: the ; after a quote begins a comment: put the whole value in quotes`,

		// quotes
		`password = "s3cret`:               `f:2: redis.password: the closing quote is missing`,
		`password = "`:                     `f:2: redis.password: the closing quote is missing`,
		"password = `s3cret":               `f:2: redis.password: the closing quote is missing`,
		`password = "s3cret\"`:             `f:2: redis.password: the closing quote is missing (\" is a quote within the value): put a value that ends with \ in backticks`,
		`password = "s3cret"tail`:          `f:2: redis.password: ` + more,
		`password = "s3cret" "b"`:          `f:2: redis.password: ` + more,
		"password = `s3cret` b`":           `f:2: redis.password: ` + more,
		`password = """s3cret"""`:          `f:2: redis.password: a value in """ is not read: want one quote at each end, or backticks around a value with quotes in it`,
		`password = 's3cret`:               `f:2: redis.password: a value that begins with ' must end with its only other ': want double quotes around it`,
		`password = 's3''cret'`:            `f:2: redis.password: a value that begins with ' must end with its only other ': want double quotes around it`,
		`password = 's3 ; cret'`:           `f:2: redis.password: a value that begins with ' must end with its only other ': want double quotes around it`,
		`password = '`:                     `f:2: redis.password: a value that begins with ' must end with its only other ': want double quotes around it`,
		`password = "s3cret\xff"` + "\xff": `f:2: redis.password: ` + more,

		// keys
		`prot = 1`:            `f:2: redis.prot: unknown key, did you mean port?`,
		`Host = h`:            `f:2: redis.Host: unknown key, did you mean host?`,
		`max-idle = 1`:        `f:2: redis.max-idle: unknown key, did you mean max_idle?`,
		`max idle = 1`:        `f:2: redis.max idle: unknown key, did you mean max_idle?`,
		`tls cert = x`:        `f:2: redis.tls cert: unknown key, did you mean tls_cert?`,
		"\u200bhost = h":      "f:2: \"redis.\\u200bhost\": unknown key, did you mean host?",
		`"host" = h`:          `f:2: a key is written without quotes`,
		"`host` = h":          `f:2: a key is written without quotes`,
		`'host' = h`:          `f:2: a key is written without quotes`,
		`pid = /run/d.pid`:    `f:2: redis.pid: belongs to [delayer]`,
		`= s3cret`:            `f:2: there is no key before the =: want key = value`,
		`: s3cret`:            `f:2: there is no key before the :: want key = value`,
		`- = s3cret`:          `f:2: redis.-: unknown key: [redis] has ` + redisKeys,
		`socket = /run/r`:     `f:2: redis.socket: unknown key: [redis] has ` + redisKeys,
		`my s3cret = x`:       `f:2: redis.my: unknown key: [redis] has ` + redisKeys,
		`password s3cret`:     `f:2: redis.password: there is no = behind the key: want password = value`,
		`password s3c=ret`:    `f:2: redis.password: there is no = behind the key: want password = value`,
		`password s=3cret`:    `f:2: redis.password: there is no = behind the key: want password = value`,
		`tls`:                 `f:2: redis.tls: there is no = behind the key: want tls = value`,
		`s3cret and nothing`:  `f:2: is neither [section] nor key = value: begin a comment with ;`,
		`// s3cret`:           `f:2: is neither [section] nor key = value: begin a comment with ;`,
		"[delayer]\nport = 1": `f:3: delayer.port: belongs to [redis]`,

		// sections
		`[reddis]`:             `f:2: [reddis]: unknown section, did you mean [redis]?`,
		`[Delayer]`:            `f:2: [Delayer]: unknown section, did you mean [delayer]?`,
		`[ delayer ]`:          `f:2: [ delayer ]: unknown section, did you mean [delayer]?`,
		`[delayer.redis]`:      `f:2: [delayer.redis]: unknown section: want [delayer] or [redis]`,
		"[mysql]\nhost = h":    `f:2: [mysql]: unknown section: want [delayer] or [redis]`,
		"[DEFAULT]\nport = 99": `f:2: [DEFAULT]: unknown section: want [delayer] or [redis]`,
		`[]`:                   `f:2: []: unknown section: want [delayer] or [redis]`,
		`[delayer`:             `f:2: a section begins with [ and ends with ]: the ] is missing`,
		`[delayer ; comment`:   `f:2: a section begins with [ and ends with ]: the ] is missing`,
		`[delayer] pid = x`:    `f:2: there is more behind the section's ]: write it on a line of its own`,
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

func TestLoadReportsDuplicates(t *testing.T) {
	_, err := loadText("[redis]\nport = 1\nhost = a\nport = 2\nport = 3\n")
	wantMessages(t, err,
		"f:4: redis.port: is set on line 2 already: keep one of the two lines",
		"f:5: redis.port: is set on line 2 already: keep one of the two lines")
}

func TestLoadReportsRepeatedSections(t *testing.T) {
	_, err := loadText("[redis]\nport = 1\nhost = a\n[redis]\nport = 2\nhost = b\n")
	wantMessages(t, err,
		"f:4: [redis]: repeats keys of [redis] on line 1: keep one of the two sections",
		"f:5: redis.port: is set on line 2 already: keep one of the two lines",
		"f:6: redis.host: is set on line 3 already: keep one of the two lines")
}

func TestLoadReportsKeysOutsideASection(t *testing.T) {
	_, err := loadText("host = a\nfoo = b\npid = c\nbar\n[redis]\n")
	wantMessages(t, err,
		"f:1: host: stands before the first section: put it below [redis]",
		"f:2: foo: stands before the first section: put it below [delayer] or [redis]",
		"f:3: pid: stands before the first section: put it below [delayer]",
		"f:4: is neither [section] nor key = value: begin a comment with ;")
}

func TestLoadShowsNoPieceOfASecretThatGoesOn(t *testing.T) {
	for start, wantFirst := range map[string][]string{
		`password = "s3a`: {"f:2: redis.password: the closing quote is missing"},
		`password = s3a\`: nil,
		"password = x\npassword = `s3a": {
			"f:3: redis.password: is set on line 2 already: keep one of the two lines"},
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
			fmt.Sprintf("f:%d: redis.s3e: unknown key: [redis] has %s", n+4, redisKeys),
			fmt.Sprintf("f:%d: redis.g: unknown key: [redis] has %s", n+6, redisKeys))...)
		wantMessages(t, afterBlank, append(wantFirst, fmt.Sprintf("f:%d: redis.g: unknown key: [redis] has %s", n+1, redisKeys))...)
	}
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
		"f:2: redis.prot: unknown key, did you mean port?",
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
		"f:3: redis.prot: unknown key, did you mean port?",
		"f:6: delayer.acces_log: unknown key, did you mean access_log?",
		"f:7: delayer.error_log: the closing quote is missing",
		"f:8: delayer.log_fromat: unknown key, did you mean log_format?")
}
