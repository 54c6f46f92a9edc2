package config

import "strings"

// EnvironmentPrefix begins the name of each variable that overrides a key of the
// section: DELAYER_REDIS_ for redis.
func EnvironmentPrefix(section string) string {
	return "DELAYER_" + strings.ToUpper(section) + "_"
}

// environment lets the variables override the file. One that is set and empty
// overrides as well. Their case is of no meaning, as on Windows.
func (l *loader) environment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		for _, section := range []string{"redis", "http"} {
			if suffix, ours := strings.CutPrefix(strings.ToUpper(name), EnvironmentPrefix(section)); ours {
				l.variable(place{name: name + ": "}, section, suffix, value)
			}
		}
	}
}

func (l *loader) variable(at place, section, suffix, value string) {
	k, known := l.keys[section+"."+strings.ToLower(suffix)]
	meant := nearest(suffix, l.names[section])
	switch {
	case isServiceLink(suffix, value):
		l.fail(at, "was set by a container's link to a service named delayer-%s: switch the links off "+
			"(Kubernetes: enableServiceLinks: false), or rename the service", section)
	case known:
		l.put(at, k, value)
	case meant != "":
		l.fail(at, "unknown variable, did you mean %s%s?", EnvironmentPrefix(section), strings.ToUpper(meant))
	default:
		l.fail(at, "unknown variable: [%s] has %s", section, strings.Join(l.names[section], ", "))
	}
}

// isServiceLink recognizes what Kubernetes and docker --link put into a
// container for every service they know, whether it is wanted or not:
// DELAYER_REDIS_PORT=tcp://10.0.0.7:6379, DELAYER_REDIS_PORT_6379_TCP_ADDR …
func isServiceLink(suffix, value string) bool {
	return strings.HasPrefix(suffix, "SERVICE_") || strings.HasPrefix(suffix, "PORT_") ||
		suffix == "PORT" && strings.Contains(value, "://")
}
