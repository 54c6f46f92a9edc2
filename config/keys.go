package config

import "time"

// key is one setting of a Config.
type key struct {
	section, name string
	standard      string                   // its value in the shipped file
	set           func(value string) error // puts the value in its place, or says what it wants
}

func (k key) String() string { return k.section + "." + k.name }

var sections = []string{"delayer", "redis", "http"}

// largest is the largest int of every machine.
const largest = 1<<31 - 1

// keys is the only place that knows the keys, their defaults and their limits.
// Where 0 is no limit, -1 is one way to write it.
func (c *Config) keys() []key {
	d, r, h := &c.Delayer, &c.Redis, &c.HTTP
	return []key{
		{"delayer", "pid", "/var/run/delayer.pid", path(&d.PID)},
		{"delayer", "timer_interval", "1000", number(&d.TimerInterval, time.Millisecond, 1, 86_400_000)},
		{"delayer", "access_log", "logs/access.log", path(&d.AccessLog)},
		{"delayer", "error_log", "logs/error.log", path(&d.ErrorLog)},
		{"delayer", "log_format", "text", text(&d.LogFormat, "text|json", "text or json")},
		{"delayer", "dead_max_age", "1209600", number(&d.DeadMaxAge, time.Second, 0, largest)},
		{"delayer", "dead_max", "0", number(&d.DeadMax, 1, 0, largest)},

		{"redis", "host", "127.0.0.1", host(&r.Host)},
		{"redis", "port", "6379", number(&r.Port, 1, 1, 65535)},
		{"redis", "database", "0", number(&r.Database, 1, 0, largest)},
		{"redis", "username", "", text(&r.Username, ".*", "")},
		{"redis", "password", "", text(&r.Password, ".*", "")},
		{"redis", "password_file", "", path(&r.PasswordFile)},
		{"redis", "sentinels", "", list(&r.Sentinels, addrOf("26379"), "host:port of each sentinel, separated by commas")},
		{"redis", "sentinel_master", "", text(&r.SentinelMaster, `[\w.-]*`, "the name that the sentinels know the master by: letters, digits, and . - _")},
		{"redis", "sentinel_username", "", text(&r.SentinelUsername, ".*", "")},
		{"redis", "sentinel_password", "", text(&r.SentinelPassword, ".*", "")},
		{"redis", "sentinel_password_file", "", path(&r.SentinelPasswordFile)},
		{"redis", "cluster", "", list(&r.Cluster, addrOf("6379"), "host:port of some nodes, separated by commas")},
		{"redis", "prefix", "delayer:", text(&r.Prefix, `[^\s\pZ]+`, `the beginning of every key's name, such as "delayer:", without spaces`)},
		{"redis", "partitions", "1", number(&r.Partitions, 1, 1, 1024)},
		{"redis", "partitions_before", "0", number(&r.PartitionsBefore, 1, 0, 1024)},
		{"redis", "max_idle", "2", number(&r.MaxIdle, 1, -1, largest)},
		{"redis", "max_active", "20", number(&r.MaxActive, 1, -1, largest)},
		{"redis", "idle_timeout", "3600", number(&r.IdleTimeout, time.Second, -1, largest)},
		{"redis", "conn_max_lifetime", "3600", number(&r.ConnMaxLifetime, time.Second, -1, largest)},
		{"redis", "connect_timeout", "3000", number(&r.ConnectTimeout, time.Millisecond, 1, largest)},
		{"redis", "read_timeout", "3000", number(&r.ReadTimeout, time.Millisecond, 1, largest)},
		{"redis", "write_timeout", "3000", number(&r.WriteTimeout, time.Millisecond, 1, largest)},
		{"redis", "tls", "false", flag(&r.TLS)},
		{"redis", "tls_ca", "", path(&r.TLSCA)},
		{"redis", "tls_cert", "", path(&r.TLSCert)},
		{"redis", "tls_key", "", path(&r.TLSKey)},
		{"redis", "tls_skip_verify", "false", flag(&r.TLSSkipVerify)},

		{"http", "listen", "", listen(&h.Listen)},
		{"http", "token", "", token(&h.Token)},
		{"http", "token_file", "", path(&h.TokenFile)},
		{"http", "users", "", users(&h.Users)},
		{"http", "users_file", "", path(&h.UsersFile)},
		{"http", "tls_cert", "", path(&h.TLSCert)},
		{"http", "tls_key", "", path(&h.TLSKey)},
		{"http", "read_only", "false", flag(&h.ReadOnly)},
		{"http", "insecure", "false", flag(&h.Insecure)},
		{"http", "hosts", "", list(&h.Hosts, hostOf, "names or addresses without a port, separated by commas")},
		{"http", "max_body", "1048576", number(&h.MaxBody, 1, 1024, 512<<20)}, // as much as Redis takes
		{"http", "queue_block_timeout", "178", number(&h.PollTimeout, time.Second, 1, 3600)},
		{"http", "metrics_topics", "1000", number(&h.TopicLabels, 1, 0, 100_000)},
		{"http", "ready_max_late", "60", number(&h.ReadyMaxLate, time.Second, 0, largest)},
	}
}
