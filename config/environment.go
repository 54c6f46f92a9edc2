package config

import (
	"os"
	"strings"

	"github.com/mix-basic/delayer/internal/nearest"
)

// EnvironmentPrefix returns the prefix of the variables that override keys of the section: DELAYER_REDIS_ for
// redis, DELAYER_ for delayer.
func EnvironmentPrefix(section string) string {
	if section == "delayer" {
		return "DELAYER_"
	}
	return "DELAYER_" + strings.ToUpper(section) + "_"
}

// JobPrefix is the prefix of the variables that describe the job to a worker's program, HeaderPrefix of those with the job's
// headers. They are not settings, and a delayer started by such a program ignores them.
const (
	JobPrefix    = "DELAYER_JOB_"
	HeaderPrefix = "DELAYER_HEADER_"
)

// URLVariable names a variable with the URL of a Redis, as package client reads it. It goes before all that says where Redis is. This
// package only passes it over.
const URLVariable = "DELAYER_REDIS_URL"

// Variables are the names of the variables of this process that override a key.
func Variables() (names []string) {
	l := newLoader()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		section, suffix, ours := split(name)
		if _, known := l.keys[section+"."+strings.ToLower(suffix)]; ours && known || strings.ToUpper(name) == URLVariable && value != "" {
			names = append(names, name)
		}
	}
	return names
}

// split returns the section of a variable, if its prefix is ours. Case is ignored, as on Windows.
func split(name string) (section, suffix string, ours bool) {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, JobPrefix) || strings.HasPrefix(name, HeaderPrefix) || name == URLVariable {
		return "", "", false
	}
	for _, section := range []string{"redis", "http", "delayer"} {
		if suffix, ours := strings.CutPrefix(name, EnvironmentPrefix(section)); ours {
			return section, suffix, true
		}
	}
	return "", "", false
}

// environment applies the variables, which override the file even if they are empty.
func (l *loader) environment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if section, suffix, ours := split(name); ours {
			l.variable(place{name: name + ": "}, section, suffix, value)
		}
	}
	l.forgetSecrets()
}

func (l *loader) variable(at place, section, suffix, value string) {
	k, known := l.keys[section+"."+strings.ToLower(suffix)]
	report := l.fail // a typo could drop Redis's password or open the HTTP server
	if section == "delayer" {
		report = l.warn
	}
	switch {
	case isServiceLink(suffix, value) && section == "delayer": // describes our own service in Kubernetes: not a setting
	case isServiceLink(suffix, value):
		l.fail(at, "was set by a container's link to a service named delayer-%s: turn the links off "+
			"(Kubernetes: enableServiceLinks: false), or rename the service", section)
	case known:
		l.put(at, k, value)
	default:
		if meant := l.meantVariable(section, suffix); meant != "" {
			report(at, "unknown variable, did you mean %s?", meant)
		} else {
			report(at, "unknown variable: [%s] has %s", section, strings.Join(l.names[section], ", "))
		}
	}
}

// meantVariable returns the variable that a misspelt one probably stands for, in its own section or another.
func (l *loader) meantVariable(section, suffix string) string {
	for _, s := range append([]string{section}, sections...) {
		if meant := nearest.Of(suffix, l.names[s]); meant != "" {
			return EnvironmentPrefix(s) + strings.ToUpper(meant)
		}
	}
	return ""
}

// isServiceLink recognizes variables that Kubernetes and docker --link add to containers for every service:
// DELAYER_REDIS_PORT=tcp://10.0.0.7:6379, DELAYER_REDIS_PORT_6379_TCP_ADDR …
func isServiceLink(suffix, value string) bool {
	return strings.HasPrefix(suffix, "SERVICE_") || strings.HasPrefix(suffix, "PORT_") ||
		suffix == "PORT" && strings.Contains(value, "://")
}
