package config

import (
	"slices"
	"time"
)

// setting is a row of a section's table.
type setting struct {
	name, standard string                   // standard is the value in the shipped file
	set            func(value string) error // stores the value, or says what would be valid
	about          string                   // comment in the shipped file
}

// key is a setting with its section.
type key struct {
	section string
	setting
}

func (k key) String() string { return k.section + "." + k.name }

// Key describes a setting for documents.
type Key struct{ Section, Name, Default, About string }

// Keys returns all settings in the order of the shipped file; those of schedules are in section
// schedule.NAME.
func Keys() (list []Key) {
	for _, k := range slices.Concat(new(Config).keys(), (&Schedule{Name: "NAME"}).keys()) {
		list = append(list, Key{k.section, k.name, k.standard, k.about})
	}
	return list
}

var sections = []string{"delayer", "redis", "http"}

// largest is the largest int on every platform.
const largest = 1<<31 - 1

// keys is the only table of the settings, their defaults and limits. Where 0 means no limit, -1 does too.
func (c *Config) keys() []key {
	return slices.Concat(in("delayer", c.Delayer.settings()), in("redis", c.Redis.settings()), in("http", c.HTTP.settings()))
}

func in(section string, settings []setting) (keys []key) {
	for _, s := range settings {
		keys = append(keys, key{section, s})
	}
	return keys
}

func (d *Delayer) settings() []setting {
	return []setting{
		{"pid", "/var/run/delayer.pid", path(&d.PID), "allows one instance; leave empty to run several; not on Windows"},
		{"timer_interval", "1000", number(&d.TimerInterval, time.Millisecond, 1, 86_400_000),
			"milliseconds between full scans, 1 to 86400000, at least one a minute; jobs due in between are on time"},
		{"access_log", "logs/access.log", path(&d.AccessLog), "leave empty to write none; SIGUSR1 reopens it"},
		{"error_log", "logs/error.log", path(&d.ErrorLog), "leave empty to write none; SIGUSR1 reopens it"},
		{"log_format", "text", text(&d.LogFormat, "text|json", "text or json"), "text, or json for one object per line"},
		{"dead_max_age", "1209600", number(&d.DeadMaxAge, time.Second, 0, largest), "seconds until a dead letter is dropped, 0 for never"},
		{"dead_max", "0", number(&d.DeadMax, 1, 0, largest), "maximum number of dead letters per topic, the oldest are dropped; 0 for no limit"},
	}
}

func (r *Redis) settings() []setting {
	return []setting{
		{"host", "127.0.0.1", host(&r.Host), "name or address, or the path of a unix socket: /run/redis/redis.sock"},
		{"port", "6379", number(&r.Port, 1, 1, 65535), "TCP port of Redis"},
		{"database", "0", number(&r.Database, 1, 0, largest), "the number given to SELECT"},
		{"username", "", anyText(&r.Username), "ACL user, empty for the default user; requires a password"},
		{"password", "", anyText(&r.Password), "empty for none"},
		{"password_file", "", path(&r.PasswordFile), "file with the password, for example a systemd credential or a container secret"},
		{"sentinels", "", list(&r.Sentinels, addrOf("26379"), "host:port of each sentinel, separated by commas"),
			"Redis Sentinels, instead of host and port: 10.0.0.1:26379, 10.0.0.2:26379; tls and the timeouts (up to 1 s) apply to them, too"},
		{"sentinel_master", "", text(&r.SentinelMaster, `[\w.-]*`, "the name that the sentinels know the master by: letters, digits, and . - _"),
			"name of the master at the sentinels"},
		{"sentinel_username", "", anyText(&r.SentinelUsername), "ACL user for the sentinels; requires sentinel_password"},
		{"sentinel_password", "", anyText(&r.SentinelPassword), "empty for none"},
		{"sentinel_password_file", "", path(&r.SentinelPasswordFile), "file with the password"},
		{"cluster", "", list(&r.Cluster, addrOf("6379"), "host:port of some nodes, separated by commas"),
			"some nodes of a Redis Cluster, instead of host and port: 10.0.0.1:6379, 10.0.0.2:6379; needs partitions"},
		{"prefix", "delayer:", text(&r.Prefix, `[^\s\pZ]+`, `the beginning of every key's name, such as "delayer:", without spaces`),
			"prefix of every key, the same in all programs; on one node of a Cluster with a hash tag: {delayer}:"},
		{"partitions", "1", number(&r.Partitions, 1, 1, 1024),
			"number of partitions, 1 to 1024, see docs/scaling.md; chosen once, the same in all programs; the prefix has no braces then"},
		{"max_idle", "2", number(&r.MaxIdle, 1, -1, largest), "idle connections to keep, at most max_active"},
		{"max_active", "20", number(&r.MaxActive, 1, -1, largest),
			"maximum connections besides the subscription; 0 for no limit; the same again for the HTTP server"},
		{"idle_timeout", "3600", number(&r.IdleTimeout, time.Second, -1, largest), "seconds until an idle connection is closed, 0 for never"},
		{"conn_max_lifetime", "3600", number(&r.ConnMaxLifetime, time.Second, -1, largest), "seconds until any connection is closed, 0 for never"},
		{"connect_timeout", "3000", number(&r.ConnectTimeout, time.Millisecond, 1, largest), "milliseconds"},
		{"read_timeout", "3000", number(&r.ReadTimeout, time.Millisecond, 1, largest), "milliseconds of silence while waiting for a reply from Redis"},
		{"write_timeout", "3000", number(&r.WriteTimeout, time.Millisecond, 1, largest), "milliseconds to wait until data can be sent"},
		{"tls", "false", flag(&r.TLS), "true to encrypt; required by the keys below"},
		{"tls_ca", "", path(&r.TLSCA), "PEM file with the CAs to trust, empty for the system's"},
		{"tls_cert", "", path(&r.TLSCert), "PEM file of our certificate, if Redis requires one"},
		{"tls_key", "", path(&r.TLSKey), "PEM file of its key"},
		{"tls_skip_verify", "false", flag(&r.TLSSkipVerify), "true to accept any certificate, for tests only"},
	}
}

func (h *HTTP) settings() []setting {
	return []setting{
		{"listen", "", checked(&h.Listen, checkListen), "host:port of the HTTP server; without it there is no HTTP server"},
		{"token", "", checked(&h.Token, checkToken), "required of every request, 16 characters or more; token or users are required to serve other machines"},
		{"token_file", "", path(&h.TokenFile), "file with the token"},
		{"users", "", users(&h.Users), "users for browsers: alice:PASSWORD, bob:PASSWORD, passwords of 8 characters or more"},
		{"users_file", "", path(&h.UsersFile), "file with the users, one per line"},
		{"tls_cert", "", path(&h.TLSCert), "PEM file of our certificate, to serve HTTPS"},
		{"tls_key", "", path(&h.TLSKey), "PEM file of its key"},
		{"read_only", "false", flag(&h.ReadOnly), "true to only show: nothing can be pushed, taken or changed"},
		{"insecure", "false", flag(&h.Insecure), "true to serve other machines without token and users"},
		{"hosts", "", list(&h.Hosts, hostOf, "names or addresses without a port, separated by commas"),
			"host names of the server, besides that of listen and localhost: jobs.example.com, jobs; also names in Prometheus's targets"},
		{"max_body", "1048576", number(&h.MaxBody, 1, 1024, 512<<20), "maximum size of a request in bytes, 1024 to 536870912"}, // as much as Redis accepts
		{"queue_block_timeout", "178", number(&h.PollTimeout, time.Second, 1, 3600), "how many seconds /pop waits for a job, 1 to 3600"},
		{"metrics_topics", "1000", number(&h.TopicLabels, 1, 0, 100_000),
			`how many topics have their own labels in /metrics, up to 100000; the rest are "other"`},
		{"ready_max_late", "60", number(&h.ReadyMaxLate, time.Second, 0, largest),
			"seconds a job may be overdue before /readyz reports degraded, 0 for no limit"},
	}
}
