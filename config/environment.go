package config

import (
	"os"
	"strings"

	"github.com/mix-basic/delayer/internal/nearest"
)

// EnvironmentPrefix begins the name of each variable that overrides a key of the
// section: DELAYER_REDIS_ for redis, and DELAYER_ alone for delayer.
func EnvironmentPrefix(section string) string {
	if section == "delayer" {
		return "DELAYER_"
	}
	return "DELAYER_" + strings.ToUpper(section) + "_"
}

// JobPrefix begins the names of the variables that tell a worker's program of its job. They are
// no settings, and a delayer that such a program runs passes them over.
const JobPrefix = "DELAYER_JOB_"

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

// split tells which section a variable is of, if its name begins like one of ours. The case
// is of no meaning, as on Windows.
func split(name string) (section, suffix string, ours bool) {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, JobPrefix) || name == URLVariable {
		return "", "", false
	}
	for _, section := range []string{"redis", "http", "delayer"} {
		if suffix, ours := strings.CutPrefix(name, EnvironmentPrefix(section)); ours {
			return section, suffix, true
		}
	}
	return "", "", false
}

// environment lets the variables override the file. One that is set and empty
// overrides as well.
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
	report := l.fail // a slip may leave a Redis without its password, or open the HTTP front
	if section == "delayer" {
		report = l.warn
	}
	switch {
	case isServiceLink(suffix, value) && section == "delayer": // of the front's own service: it sets nothing here
	case isServiceLink(suffix, value):
		l.fail(at, "was set by a container's link to a service named delayer-%s: switch the links off "+
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

// meantVariable is the variable that a mistyped one most likely stands for: of its own section, or
// of another one that its name leaves out or confuses.
func (l *loader) meantVariable(section, suffix string) string {
	for _, s := range append([]string{section}, sections...) {
		if meant := nearest.Of(suffix, l.names[s]); meant != "" {
			return EnvironmentPrefix(s) + strings.ToUpper(meant)
		}
	}
	return ""
}

// isServiceLink recognizes what Kubernetes and docker --link put into a
// container for every service they know, whether it is wanted or not:
// DELAYER_REDIS_PORT=tcp://10.0.0.7:6379, DELAYER_REDIS_PORT_6379_TCP_ADDR …
func isServiceLink(suffix, value string) bool {
	return strings.HasPrefix(suffix, "SERVICE_") || strings.HasPrefix(suffix, "PORT_") ||
		suffix == "PORT" && strings.Contains(value, "://")
}
