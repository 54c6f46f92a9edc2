package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadReadsValues(t *testing.T) {
	for want, all := range map[string][]string{
		"plain":              {` = plain`, `=plain`, `: plain`},
		"a=b:c":              {` = a=b:c`},
		"with inner  spaces": {` =   with inner  spaces   `},
		"crlf":               {" = crlf\r"},
		"hard space":         {" =\u00a0hard space\u00a0"},
		"":                   {` =`, ` = ; comment`, ` = #`, ` = ""`, ` = ''`, " = ``"},
		"value":              {` = value ; comment ; # more`, ` = value # it's a comment`, ` = value ; with "quotes"`},
		"it's":               {` = it's`, ` = "it's"`},
		`mid"dle" quotes`:    {` = mid"dle" quotes`},
		`C:\dir\file`:        {` = C:\dir\file`},
		`C:\dir\`:            {` = C:\dir\`},
		`\"x\"`:              {` = \"x\"`},
		"a#b;c":              {` = "a#b;c"`},
		"a":                  {` = "a" ; "b"`, ` = "a"; comment`, " = `a` ; `b`"},
		"  spaces  ":         {` = "  spaces  "`},
		`a "b" c`:            {` = "a \"b\" c"`},
		`C:\dir\n`:           {` = "C:\dir\n"`},
		`a\\b`:               {` = "a\\b"`},
		"single ones":        {` = 'single ones'`},
		"single":             {` = 'single' ; it's a comment`},
		`"`:                  {` = '"'`, ` = """`[:4] + `\"" ; no triple`},
		`a#b;"c"\`:           {" = `a#b;\"c\"\\`"},
		"%(host)s":           {` = %(host)s`},
		"%(":                 {` = %(`},
		"100%":               {` = 100%`},
		"$HOME":              {` = $HOME`},
		"`":                  {` = "` + "`" + `"`},
		"ü€😀":                {` = ü€😀`},
		"=":                  {` = = `},
		"[redis]":            {` = [redis]`},
	} {
		for _, written := range all {
			wantChanged(t, func(c *Config) { c.Redis.Password = want }, "[redis]\nhost = 127.0.0.1\npassword"+written+"\n")
		}
	}
}

// refuses checks that each of the lines, in [redis], is refused with its message.
func refuses(t *testing.T, refused map[string][]string) {
	t.Helper()
	for want, lines := range refused {
		for _, line := range lines {
			wantMessages(t, problems("[redis]\n"+line+"\n"), want)
		}
	}
}

func TestLoadRefusesValues(t *testing.T) {
	const port, host = "f:2: redis.port: ", "f:2: redis.host: "
	const hostWanted = "want a name or an address without a port, or the path of a unix socket that begins with /, ./ or ../"
	const aPort = "want a whole number from 1 to 65535, in decimal digits without leading zeros"
	const control = "has a line break, a tab, another control character, or bytes that are not UTF-8: remove them"
	refuses(t, map[string][]string{
		// numbers
		port + aPort: {
			`port = 0`, `port = -1`, `port = 65536`, `port = 99999999999999999999`, `port = 010`, `port = 08`, `port = 0x1F`, `port = 6_379`,
			`port = +5`, `port = 6379.0`, `port = redis`, `port = %(max_idle)s`,
		},
		`f:2: redis.conn_max_lifetime: want a whole number of seconds from -1 to 2147483647, in decimal digits without leading zeros`: {`conn_max_lifetime = -2`},
		`f:2: redis.database: want a whole number from 0 to 2147483647, in decimal digits without leading zeros`:                      {`database = -1`},
		`f:2: redis.max_active: want a whole number from -1 to 2147483647, in decimal digits without leading zeros`:                   {`max_active = 2147483648`},
		`f:2: redis.idle_timeout: want a whole number of seconds from -1 to 2147483647, in decimal digits without leading zeros`:      {`idle_timeout = 1h`},
		`f:2: redis.read_timeout: want a whole number of milliseconds from 1 to 2147483647, in decimal digits without leading zeros`:  {`read_timeout = 0`},
		`f:3: delayer.timer_interval: want a whole number of milliseconds from 1 to 86400000, in decimal digits without leading zeros`: {
			"[delayer]\ntimer_interval=0", "[delayer]\ntimer_interval=1s",
		},
		// words
		`f:2: redis.tls: want true or false`:         {`tls = yes`},
		`f:3: delayer.log_format: want text or json`: {"[delayer]\nlog_format=JSON"},
		// texts
		`f:2: redis.prefix: want the beginning of every key's name, such as "delayer:", without spaces`: {`prefix = my queue:`},
		`f:2: redis.username: ` + control:                         {"username = a\tb"},
		`f:2: redis.password: ` + control:                         {"password = a\x1bs3cret", "password = s3cret\rport = 1\r", "password = s3cret\xff"},
		`f:3: delayer.pid: want the full path: ~ is not expanded`: {"[delayer]\npid = ~", "[delayer]\npid = ~/delayer.pid"},
		// hosts
		host + hostWanted: {
			`host = 127.0.0.1:6380`, `host = [::1]:6380`, `host = redis:`, `host = redis://u:s3cret@h:6379`, `host = s3cret@redis:6379`,
			`host = run/redis.sock`, `host = one two`,
		},
	})
}

func TestLoadRefusesCommentsAndQuotes(t *testing.T) {
	const numberSign = "the # starts a comment: put the value in double quotes, or a space on both sides of the #"
	const semicolon = "the ; starts a comment: put the value in double quotes, or a space on both sides of the ;"
	const more = "the closing quote is missing or followed by more text: write \\\" for a quote within \"…\", or put the value in backticks"
	refuses(t, map[string][]string{
		// comments that may be part of a value
		`f:2: redis.password: ` + numberSign: {
			`password = s3cret#def`, `password = 's3cret#def'`, `password =#s3cret`, `password = #s3cret`, `password = a"b # s3cret"`,
		},
		`f:2: redis.password: ` + semicolon: {`password = s3cret;def`, "password = a`b ; s3cret` ", `password = 's3 ; cret'`},
		// quotes
		`f:2: redis.password: ` + more: {
			`password = "s3cret`, `password = "`, "password = `s3cret", `password = "s3cret\"`, `password = "s3cret"tail`, `password = "s3cret" "b"`,
			"password = `s3cret` b`", `password = "s3cret\xff"` + "\xff",
		},
	})
}

func TestLoadRefusesKeys(t *testing.T) {
	const neither = "f:2: is neither [section] nor key = value: start a comment with ;"
	refuses(t, map[string][]string{
		// neither a section nor a key
		neither: {
			`= s3cret`, `: s3cret`, `password s3cret`, `tls`, `s3cret and nothing`, `// s3cret`, `"password = s3cret"`, `[delayer`,
			`[delayer ; comment`, `[redis] s3cret = x`, "\ufeff[delayer]",
		},
		// settings that would leave the connection unencrypted
		`f:2: unknown key: [redis] has ` + redisKeys:         {`tls cert = x`, `tls_versoin = 1.3`},
		`f:2: redis.tsl: unknown key, did you mean tls?`:     {`tsl = true`},
		`f:3: delayer.tls: belongs to [redis]`:               {"[delayer]\ntls = true"},
		`f:3: delayer.tls_ca: belongs to [redis]`:            {"[delayer]\ntls_ca = a"},
		`f:3: delayer.tls_key: belongs to [redis] or [http]`: {"[delayer]\ntls_key=a"},
		`f:2: redis.ssl: unknown key, did you mean tls?`:     {`ssl = true`},
	})
}

const redisKeys = "host, port, database, username, password, password_file, sentinels, sentinel_master, " +
	"sentinel_username, sentinel_password, sentinel_password_file, cluster, prefix, partitions, max_idle, max_active, idle_timeout, " +
	"conn_max_lifetime, connect_timeout, read_timeout, write_timeout, tls, tls_ca, tls_cert, tls_key, tls_skip_verify"

const httpKeys = "listen, token, token_file, users, users_file, tls_cert, tls_key, read_only, insecure, hosts, max_body, queue_block_timeout, metrics_topics, ready_max_late"

func TestLoadAcceptsSectionsInAnyShape(t *testing.T) {
	wantChanged(t, func(c *Config) { c.Redis.Port, c.Redis.Database = 1, 2 },
		"[redis] ; see [docs]\nport = 1\n[delayer]# x\n[redis]\n  database = 2\n\t; x\n")
}

// warning is a file that works with the original: what it changes, and its warnings.
type warning struct {
	text   string
	change func(*Config)
	want   []string
}

// warns checks that the files are accepted. Ignored or replaced settings get a warning with their line, and the rest applies.
func warns(t *testing.T, files []warning) {
	t.Helper()
	for _, test := range files {
		got, warnings, err := load(test.text)
		for i := range test.want {
			test.want[i] = strings.Replace("f:"+test.want[i], ": ", ": warning: ", 1)
		}
		if want := changed(test.change); err != nil || !equal(got, want) || !slices.Equal(warnings, test.want) {
			t.Errorf("%q: %v\n got %+v\nwant %+v\n got %q\nwant %q", test.text, err, got, want, warnings, test.want)
		}
		if strings.Contains(warnings.Error(), "s3") {
			t.Errorf("%q: the warning shows a secret: %v", test.text, warnings)
		}
	}
}

func TestLoadWarnsOfKeys(t *testing.T) {
	const other = "unknown section: want [delayer], [redis], [http] or [schedule.NAME]"
	const unknownKey = "unknown key: [redis] has " + redisKeys
	warns(t, []warning{
		// unknown keys
		{"[redis]\nprot = 1", none, []string{"2: redis.prot: unknown key, did you mean port?"}},
		{"[redis]\nHost = h", none, []string{"2: redis.Host: unknown key, did you mean host?"}},
		{"[redis]\n'host' = h", none, []string{"2: " + unknownKey}},
		{"[redis]\nmax-idle = 1", none, []string{"2: redis.max-idle: unknown key, did you mean max_idle?"}},
		{"[redis]\nmax idle = 1", none, []string{"2: " + unknownKey}},
		{"[redis]\n\u200bhost = h", none, []string{"2: " + unknownKey}},
		{"[redis]\nsocket = /run/r", none, []string{"2: " + unknownKey}},
		{"[redis]\nsocket = \"/run/r", none, []string{"2: " + unknownKey}},
		{"[redis]\n- = s3cret", none, []string{"2: " + unknownKey}},
		{"[redis]\nmy s3cret = x", none, []string{"2: " + unknownKey}},
		{"[redis]\npassword s3c=ret", none, []string{"2: " + unknownKey}},
		{"[redis]\n" + strings.Repeat("x", 500) + " = 1", none, []string{"2: " + unknownKey}},
		{"[redis]\npid = /run/d.pid", none, []string{"2: redis.pid: belongs to [delayer]"}},
		{"[delayer]\nport = 1", none, []string{"2: delayer.port: belongs to [redis]"}},
		{"port = 1\nname = d\n[delayer]", none, []string{"1: port: belongs to [redis]",
			"2: is before the first section: move it below [delayer], [redis], [http] or [schedule.NAME]"}},

		// sections
		{"[mysql]\nhost = h\nhost = i\nnonsense\n[redis]\nport = 7", func(c *Config) { c.Redis.Port = 7 }, []string{"1: " + other}},
		{"[DEFAULT]\nport = 9", none, []string{"1: " + other}},
		{"[delayer.redis]\nport = 9", none, []string{"1: " + other}},
		{"[]\nport = 9", none, []string{"1: " + other}},
		// repeated keys: the last one wins
		{"[redis]\nport = 1\nhost = a\nport = 2\nport = 3", func(c *Config) { c.Redis.Port, c.Redis.Host = 3, "a" }, []string{
			"4: redis.port: is set at f:2 already: the last one counts; keep one of the two lines",
			"5: redis.port: is set at f:4 already: the last one counts; keep one of the two lines"}},
		{"[redis]\nport = 1\n[delayer]\n[redis]\nport = 2", func(c *Config) { c.Redis.Port = 2 }, []string{
			"5: redis.port: is set at f:2 already: the last one counts; keep one of the two lines"}},
	})
}

func TestLoadWarnsOfValues(t *testing.T) {
	const semicolon = "the ; starts a comment: put the value in double quotes, or a space on both sides of the ;"
	warns(t, []warning{
		// values
		{"[redis]\nhost =", none, []string{`2: redis.host: is empty: the default "127.0.0.1" is used`}},
		{"[redis]\nhost=;none", none, []string{`2: redis.host: is empty: the default "127.0.0.1" is used`}},
		{"[redis]\nhost = h\nhost = \"\"", none, []string{
			"3: redis.host: is set at f:2 already: the last one counts; keep one of the two lines",
			`3: redis.host: is empty: the default "127.0.0.1" is used`}},
		{"[redis]\nport =", none, []string{`2: redis.port: is empty: the default "6379" is used`}},
		{"[redis]\nmax_idle =\nprefix =\ntls =", none, []string{`2: redis.max_idle: is empty: the default "2" is used`,
			`3: redis.prefix: is empty: the default "delayer:" is used`, `4: redis.tls: is empty: the default "false" is used`}},
		{"[delayer]\ntimer_interval = 500;ms", func(c *Config) { c.Delayer.TimerInterval = time.Second / 2 }, []string{
			"2: delayer.timer_interval: " + semicolon}},
		{"[delayer]\npid = /run/d;x.pid", func(c *Config) { c.Delayer.PID = absolute("/run/d") }, []string{"2: delayer.pid: " + semicolon}},
		{"[redis]\nmax_idle = 21", func(c *Config) { c.Redis.MaxIdle = 20 }, []string{
			"2: redis.max_idle: max_idle is 21 but max_active is 20: at most 20 are kept"}},
		{"[redis]\nmax_active = 1\nmax_idle = 9", func(c *Config) { c.Redis.MaxActive, c.Redis.MaxIdle = 1, 1 }, []string{
			"3: redis.max_idle: max_idle is 9 but max_active is 1: at most 1 are kept"}},
	})
}

// These are accepted without a warning, as by the original.
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
		"username =;none":              none,
		`password = """a#"b"""`:        func(c *Config) { c.Redis.Password = `a#"b` },
		`password = """a""" ; """b"""`: func(c *Config) { c.Redis.Password = "a" },
		`password = 's3cret`:           func(c *Config) { c.Redis.Password = "'s3cret" },
		`password = 's3''cret'`:        func(c *Config) { c.Redis.Password = "'s3''cret'" },
		`password = """"""`:            none,
	} {
		wantChanged(t, change, "[redis]\n"+line)
	}
}

// All keys of a misspelt section would keep their defaults, and delayer would connect to the wrong
// Redis.
func TestLoadRefusesAMisspeltSection(t *testing.T) {
	for header, meant := range map[string]string{
		"[reddis]": "redis", "[Delayer]": "delayer", "[ delayer ]": "delayer", "[redis1]": "redis", "[redis]\n[reddis]": "redis",
	} {
		wantMessages(t, problems("\n"+header+"\n"), fmt.Sprintf("f:%d: unknown section, did you mean [%s]?", 2+strings.Count(header, "\n"), meant))
	}
}

func TestLoadShowsNoPieceOfASecretThatGoesOn(t *testing.T) {
	for _, start := range []string{`"s3a`, `s3a\`, "`s3a", `"""s3a`} {
		_, err := loadText("[redis]\npassword = " + start + "\ns3b\ns3c = s3d\nporrt s3e = s3f\n[s3g]\n[s3h\n")
		got := strings.Join(messages(err), "\n")
		if err == nil || strings.Contains(got, "s3") || !strings.Contains(got, "f:3: is neither") {
			t.Errorf("%s: %s", start, got)
		}
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
		"f:1: unknown section, did you mean [redis]?",
		"f:2: warning: redis.prot: unknown key, did you mean port?",
		"f:3: redis.password: the closing quote is missing or followed by more text: write \\\" for a quote within \"…\", or put the value in backticks",
		"f:4: redis.host: want a name or an address without a port, or the path of a unix socket that begins with /, ./ or ../",
		"f:5: is neither [section] nor key = value: start a comment with ;",
		`f:8: delayer.timer_interval: want a whole number of milliseconds from 1 to 86400000, in decimal digits without leading zeros`,
		`DELAYER_REDIS_DATABASE: want a whole number from 0 to 2147483647, in decimal digits without leading zeros`,
		"DELAYER_REDIS_A: unknown variable: [redis] has "+redisKeys)
}

// A comment that begins with a full-width character is part of the value, and reported.
func TestFullWidthComment(t *testing.T) {
	for line, warns := range map[string]bool{"password = a ；b": true, "password = a ＃b": true, "password = a；b": false, `password = "a ；b"`: false} {
		c, warnings, err := load("[redis]\n" + line)
		if err != nil || strings.Contains(warnings.Error(), "full-width") != warns || strings.Contains(warnings.Error(), "；b") || !strings.Contains(c.Redis.Password, "b") {
			t.Errorf("%s: %q, %v", line, warnings, err)
		}
	}
}

func TestSchedules(t *testing.T) {
	got, warnings, err := load(`[schedule.report]
cron = 0 7 * * mon-fri ; each working day
zone = Europe/Berlin
topic = reports
body = "{\"of\":\"yesterday\"}"
headers = {"tenant": "größe", "a": "b"}
missed = all
overlap = skip
jitter = 30
max_attempts = 3
lease = 60
expire_after = 3600
[redis]
port = 6380
[schedule.second friday]
cron = "30 2 * * 5#2"
topic = t
overlap = follow
`)
	want := []Schedule{
		{"report", "0 7 * * mon-fri", "Europe/Berlin", "reports", `{"of":"yesterday"}`, `{"a":"b","tenant":"größe"}`, "all", "skip", 30 * time.Second, 3, time.Minute, time.Hour},
		{"second friday", "30 2 * * 5#2", "UTC", "t", "second friday", "", "once", "follow", 0, 0, 0, 7 * 24 * time.Hour},
	}
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got.Schedules, want) || got.Redis.Port != 6380 {
		t.Errorf("got  %+v, %v, %v\nwant %+v", got.Schedules, warnings, err, want)
	}
}

func TestWrongSchedules(t *testing.T) {
	for text, want := range map[string][]string{
		"[schedule.a]\ncron = 0 25 * * *\ntopic = t": {`f:2: schedule.a.cron: "0 25 * * *", hour, "25" at character 3: want 0 to 23`},
		"[schedule.a]\ncron = 0 0 * * 5#2\ntopic = t": {
			"f:2: schedule.a.cron: the # starts a comment: put the value in double quotes, or a space on both sides of the #"},
		"\n[schedule.a]\ncron =":                                                {"f:3: schedule.a.cron: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s", "f:2: topic is missing: want the topic of its jobs"},
		"[schedule.a]\ntopic = t":                                               {"f:1: cron is missing: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s"},
		"[schedule.]\ncron = x":                                                 {"f:1: wrong schedule name, want one as in [schedule.report]: it is empty"},
		"[schedule.{a}]\ncron = x":                                              {"f:1: wrong schedule name, want one as in [schedule.report]: want no braces and no control characters"},
		"[schedule.a]\ncron = @daily\ntopic = t\nzone = Mars":                   {"f:4: schedule.a.zone: want the name of a time zone, such as Europe/Berlin, or UTC"},
		"[schedule.a]\ncron = @daily\ntopic = t\nmissed = no":                   {"f:4: schedule.a.missed: want once, skip or all"},
		"[schedule.a]\ncron = @daily\ntopic = t\noverlap = no":                  {"f:4: schedule.a.overlap: want allow, skip or follow"},
		"[schedule.a]\ncron = @daily\ntopic = t\njitter = 1m":                   {"f:4: schedule.a.jitter: want a whole number of seconds from 0 to 2147483647, in decimal digits without leading zeros"},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = tenant":              {`f:4: schedule.a.headers: want a JSON object of texts, such as {"tenant":"acme"}`},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = {\"a\":1}":           {`f:4: schedule.a.headers: want a JSON object of texts, such as {"tenant":"acme"}`},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = {\"a b\":\"c\"}":     {`f:4: schedule.a.headers: the name "a b" is not 1 to 128 letters, digits, dots, underscores and hyphens`},
		"[schedules.report]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"\n[Schedule.report]\ncron = @daily\ntopic = t":                         {"f:2: unknown section, did you mean [schedule.report]?"},
		"[ schedule.report]\ncron = x\ntopic = t":                               {"f:1: unknown section, did you mean [schedule.report]?", `f:2: schedule.report.cron: "x": it has 1 fields, want 5: minute, hour, day of the month, month, day of the week`},
		"[schedule.report ]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"[schedule. report]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"[schedul.a.b]\ncron = @daily\ntopic = t":                               {"f:1: unknown section, did you mean [schedule.a.b]?"},
		"[schedule]\ncron = @daily\ntopic = t":                                  {"f:1: wrong schedule name, want one as in [schedule.report]: it is empty"},
		"[schedule.a\tb]\ncron = @daily\ntopic = t":                             {"f:1: wrong schedule name, want one as in [schedule.report]: want no braces and no control characters"},
		"[schedule." + strings.Repeat("a", 201) + "]\ncron = @daily\ntopic = t": {"f:1: wrong schedule name, want one as in [schedule.report]: it has 201 bytes: want 200 at most"},
		"[schedule.a]\ncron = @daily\ntopic = " + strings.Repeat("t", 1025):     {"f:3: schedule.a.topic: it has 1025 bytes: want 1024 at most"},
		"[schedule.a]\ncron = @daily\ntopic = delayer:schedules":                {"f:3: schedule.a.topic: it is that of schedules"},
		"[schedule.a]\ncron = @daily\ntopic = t\n[schedule.a]\ncron = @hourly\ntopic = u": {
			"f:4: [schedule.a] is at f:1 already: a schedule has one section; rename this one, or remove it"},
		"[schedule.a]\ntopic = t\n[schedule.a]\ncron = @hourly": {
			"f:3: [schedule.a] is at f:1 already: a schedule has one section; rename this one, or remove it",
			"f:1: cron is missing: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s"},
	} {
		_, _, err := load(text)
		var got Problems
		if errors.As(err, &got); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
	const doubtful = "[schedule.a]\ncron = @daily\ntopic = t\ntopics = u\n"
	got, warnings, err := load(doubtful)
	want := Problems{"f:4: warning: schedule.a.topics: unknown key, did you mean topic?"}
	if err != nil || !slices.Equal(warnings, want) || len(got.Schedules) != 1 || got.Schedules[0].Body != "a" {
		t.Errorf("got %+v, %q, %v", got.Schedules, warnings, err)
	}
}
