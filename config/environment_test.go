package config

import (
	"strings"
	"testing"
)

func TestLoadTakesTheEnvironmentFirst(t *testing.T) {
	wantChanged(t, func(c *Config) {
		c.Delayer.PID, c.Delayer.LogFormat = absolute("/x"), "json"
		c.Redis.Port, c.Redis.Password, c.Redis.MaxActive = 2, "a#b;\"c`=%(d)s ", 0
	}, "[redis]\nport = 1\npassword = file\ntls = true",
		"PATH=/bin", "DELAYER_REDIS_PORT=2", "DELAYER_REDIS_PASSWORD=a#b;\"c`=%(d)s ", "DELAYER_REDIS_TLS=false",
		"DELAYER_REDIS_MAX_ACTIVE=0", "DELAYER_PID=/x", "delayer_log_format=json", "=C:=x")
	wantChanged(t, none, "[redis]\npassword = file", "DELAYER_REDIS_PASSWORD=")
}

func TestEnvironmentOverridesEveryKey(t *testing.T) {
	for _, k := range new(Config).keys() {
		variable := "DELAYER_" + strings.ToUpper(k.section+"_"+k.name)
		if k.section == "delayer" {
			variable = "DELAYER_" + strings.ToUpper(k.name)
		}
		_, err := loadText("", variable+"=\n")
		if got := messages(err); len(got) != 1 || !strings.HasPrefix(got[0], variable+": ") {
			t.Errorf("a line break in the variable of %s: %q; want a problem of that name", k, got)
		}
	}
}

func TestEnvironmentIsRefused(t *testing.T) {
	for variable, want := range map[string][]string{
		"DELAYER_REDIS_PASSWORD=s3cret\n":      {"DELAYER_REDIS_PASSWORD: has a line break, a tab, another control character, or bytes that are not UTF-8: remove them"},
		"DELAYER_REDIS_PORT=":                  {"DELAYER_REDIS_PORT: want a whole number from 1 to 65535, in decimal digits without leading zeros"},
		"DELAYER_REDIS_HOST=":                  {"DELAYER_REDIS_HOST: want a name or an address without a port, or the path of a unix socket that begins with /, ./ or ../"},
		"DELAYER_REDIS_PREFIX=":                {`DELAYER_REDIS_PREFIX: want the beginning of every key's name, such as "delayer:", without spaces`},
		"DELAYER_REDIS_TLS=":                   {`DELAYER_REDIS_TLS: want true or false`},
		"DELAYER_REDIS_PASWORD=s3cret":         {"DELAYER_REDIS_PASWORD: unknown variable, did you mean DELAYER_REDIS_PASSWORD?"},
		"DELAYER_REDIS_WHERE=redis://s3cret@h": {"DELAYER_REDIS_WHERE: unknown variable: [redis] has " + redisKeys},
		"DELAYER_HTTP_TOKN=s3cret":             {"DELAYER_HTTP_TOKN: unknown variable, did you mean DELAYER_HTTP_TOKEN?"},
		"DELAYER_HTTP_USER=s3cret":             {"DELAYER_HTTP_USER: unknown variable, did you mean DELAYER_HTTP_USERS?"},
		"DELAYER_HTTP_ADDRESS=s3cret":          {"DELAYER_HTTP_ADDRESS: unknown variable: [http] has " + httpKeys},
		"DELAYER_HTTP_TOKEN=s3cret":            {"DELAYER_HTTP_TOKEN: " + tokenWanted},
		"DELAYER_HTTP_USERS=bob:s3cret":        {"DELAYER_HTTP_USERS: " + usersWanted},
		"DELAYER_HTTP_TLS_KEY=k":               {"DELAYER_HTTP_TLS_KEY: needs tls_cert as well"},
		"DELAYER_REDIS_USERNAME=a":             {"DELAYER_REDIS_USERNAME: needs a password as well"},
	} {
		wantMessages(t, problems("", variable), want...)
	}
}

// A variable without effect is an error if the file configures the same thing in another way.
func TestEnvironmentContradictsTheSentinels(t *testing.T) {
	const file, sentinels = "[redis]\nhost = f\nsentinels = a, b\nsentinel_master = m", "can't be combined with redis.sentinels (f:3): keep one of the two"
	for variables, want := range map[string][]string{
		"DELAYER_REDIS_HOST=h":                           {"DELAYER_REDIS_HOST: " + sentinels},
		"DELAYER_REDIS_CLUSTER=c":                        {"DELAYER_REDIS_CLUSTER: can't be combined with sentinels: keep one of the two", "DELAYER_REDIS_CLUSTER: needs partitions, for example 16, the same in all programs, so that the keys of each are in one slot; or a prefix with a tag, such as {delayer}:"},
		"DELAYER_REDIS_PORT=7 DELAYER_REDIS_HOST=h":      {"DELAYER_REDIS_HOST: " + sentinels, "DELAYER_REDIS_PORT: " + sentinels},
		"DELAYER_REDIS_DATABASE=1":                       nil,
		"DELAYER_REDIS_HOST=h DELAYER_REDIS_SENTINELS=c": nil, // both in one place: deliberate
		"DELAYER_REDIS_HOST=h DELAYER_REDIS_SENTINELS= DELAYER_REDIS_SENTINEL_MASTER=": nil,
	} {
		wantMessages(t, problems(file, strings.Fields(variables)...), want...)
	}
}

// An unknown variable with only the shortest prefix sets nothing. That is less harmful than an unknown
// variable of [redis] or [http], so it is a warning.
func TestUnknownVariableIsAWarning(t *testing.T) {
	for want, variables := range map[string][]string{
		"DELAYER_TIMER_INTREVAL: unknown variable, did you mean DELAYER_TIMER_INTERVAL?":                                                        {"DELAYER_TIMER_INTREVAL=s3cret"},
		"Delayer_Acces_Log: unknown variable, did you mean DELAYER_ACCESS_LOG?":                                                                 {"Delayer_Acces_Log=s3cret"},
		"DELAYER_PASSWORD: unknown variable, did you mean DELAYER_REDIS_PASSWORD?":                                                              {"DELAYER_PASSWORD=s3cret"},
		"DELAYER_TOKEN: unknown variable, did you mean DELAYER_HTTP_TOKEN?":                                                                     {"DELAYER_TOKEN=s3cret"},
		"DELAYER_CONFIGURATION: unknown variable: [delayer] has pid, timer_interval, access_log, error_log, log_format, dead_max_age, dead_max": {"DELAYER_CONFIGURATION=s3cret"},
		"DELAYER_: unknown variable: [delayer] has pid, timer_interval, access_log, error_log, log_format, dead_max_age, dead_max":              {"DELAYER_=s3cret"},
		// Variables that describe a job, or a service named delayer, are ignored.
		"": {
			"DELAYER_JOB_ID=s3cret", "DELAYER_JOB_SOMETHING_NEW=s3cret", "DELAYER_HEADER_TENANT=s3cret", "DELAYER_SERVICE_HOST=10.0.0.7",
			"DELAYER_SERVICE_PORT_HTTP=9277", "DELAYER_PORT=tcp://10.0.0.7:9277", "DELAYER_PORT_9277_TCP=tcp://10.0.0.7:9277", "DELAYERS=s3cret",
			"DELAYER=s3cret", "XDELAYER_PID=s3cret",
		},
		"DELAYER_HTTP: unknown variable: [delayer] has pid, timer_interval, access_log, error_log, log_format, dead_max_age, dead_max": {"DELAYER_HTTP=s3cret"},
	} {
		if want != "" {
			want = "warning: " + want
		}
		for _, variable := range variables {
			got, warnings, err := load("[redis]\nhost = h", variable)
			if err != nil || !equal(got, changed(func(c *Config) { c.Redis.Host = "h" })) || warnings.Error() != want {
				t.Errorf("%s: got %+v, %v, %q; want %q", variable, got, err, warnings.Error(), want)
			}
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	if got, err := Load(""); err != nil || len(got.Warnings) > 0 || !equal(got.Config, Default()) {
		t.Errorf("no variable: got %+v, %v; want the defaults", got, err)
	}
	t.Setenv("DELAYER_REDIS_HOST", "r")
	got, err := Load("")
	if want := changed(func(c *Config) { c.Redis.Host = "r" }); err != nil || !equal(got.Config, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	t.Setenv("DELAYER_REDIS_PORT", "0")
	_, err = Load("")
	wantMessages(t, err, `DELAYER_REDIS_PORT: want a whole number from 1 to 65535, in decimal digits without leading zeros`)
}

// Variables that Kubernetes and docker --link add for a service are no settings, whatever the service's name.
func TestServiceLinks(t *testing.T) {
	for _, service := range []string{"DELAYER", "DELAYER_REDIS", "DELAYER_HTTP", "DELAYER_API", "DELAYER_REDIS_MASTER", "delayer_redis_master"} {
		links := []string{"_SERVICE_HOST=10.0.0.7", "_SERVICE_PORT=6379", "_SERVICE_PORT_TCP_REDIS=6379", "_PORT=tcp://10.0.0.7:6379", "_PORT_6379_TCP=tcp://10.0.0.7:6379",
			"_PORT_6379_TCP_PROTO=tcp", "_PORT_6379_TCP_PORT=6379", "_PORT_6379_TCP_ADDR=10.0.0.7"}
		for i, link := range links {
			links[i] = service + link
			t.Setenv(service+link[:strings.Index(link, "=")], link[strings.Index(link, "=")+1:])
		}
		wantMessages(t, problems("[redis]\nport = 6380", links...))
		wantChanged(t, func(c *Config) { c.Redis.Port = 6380 }, "[redis]\nport = 6380", links...)
	}
}
