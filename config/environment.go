package config

import (
	"os"
	"regexp"
	"strings"

	"github.com/mix-basic/delayer/internal/nearest"
	"github.com/mix-basic/delayer/internal/variables"
)

// environmentPrefix returns the prefix of the variables that override keys of the section: DELAYER_REDIS_ for
// redis, DELAYER_ for delayer.
func environmentPrefix(section string) string {
	if section == "delayer" {
		return "DELAYER_"
	}
	return "DELAYER_" + strings.ToUpper(section) + "_"
}

// ofDaemon reports whether a variable says where a daemon's HTTP server is, for commands. Without the address its token is meant
// to be DELAYER_HTTP_TOKEN.
func ofDaemon(name string) bool {
	return name == variables.URL || name == variables.Token && os.Getenv(variables.URL) != ""
}

// split returns the section of a variable, if it is a setting by its prefix. Case is ignored, as on Windows.
func split(name, value string) (section, suffix string, ours bool) {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, variables.Job) || strings.HasPrefix(name, variables.Header) || name == variables.RedisURL || ofDaemon(name) || isServiceLink(name, value) {
		return "", "", false
	}
	for _, section := range []string{"redis", "http", "delayer"} {
		if suffix, ours := strings.CutPrefix(name, environmentPrefix(section)); ours {
			return section, suffix, true
		}
	}
	return "", "", false
}

// environment applies the variables, which override the file even if they are empty.
func (l *loader) environment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if section, suffix, ours := split(name, value); ours {
			l.variable(place{name: name + ": "}, section, suffix, value)
		}
	}
}

func (l *loader) variable(at place, section, suffix, value string) {
	k, known := l.keys[section+"."+strings.ToLower(suffix)]
	report := l.fail // a typo could drop Redis's password or open the HTTP server
	if section == "delayer" {
		report = l.warn
	}
	meant := l.meantVariable(section, suffix)
	switch {
	case known:
		l.forgetTwin(k, value)
		l.put(at, k, value)
	case meant != "":
		report(at, "unknown variable, did you mean %s?", meant)
	default:
		report(at, "unknown variable: [%s] has %s", section, strings.Join(l.names[section], ", "))
	}
}

// meantVariable returns the variable that a misspelt one probably stands for, in its own section or another.
func (l *loader) meantVariable(section, suffix string) string {
	for _, s := range append([]string{section}, sections...) {
		if meant := nearest.Of(suffix, l.names[s]); meant != "" {
			return environmentPrefix(s) + strings.ToUpper(meant)
		}
	}
	return ""
}

// serviceLink matches variables that Kubernetes and docker --link add to containers for every service: of a service delayer-redis
// DELAYER_REDIS_SERVICE_HOST, DELAYER_REDIS_PORT_6379_TCP_ADDR …
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// isServiceLink also recognizes DELAYER_REDIS_PORT=tcp://10.0.0.7:6379.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}
