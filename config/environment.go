package config

import (
	"runtime"
	"slices"
	"strings"
)

// EnvironmentPrefix begins the name of each variable that overrides a key of [redis].
const EnvironmentPrefix = "DELAYER_REDIS_"

// environment lets the variables override the file. One that is set and empty
// overrides as well.
func (l *loader) environment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		suffix, ours := strings.CutPrefix(name, EnvironmentPrefix)
		if !ours {
			continue
		}
		at := Problem{Key: shortened(name)}
		i := slices.IndexFunc(l.keys, func(k key) bool { return k.section == "redis" && strings.ToUpper(k.name) == suffix })
		switch {
		case isServiceLink(suffix, value):
			l.fail(at, serviceLink)
		case i < 0:
			l.fail(at, "unknown variable%s", l.variableMeant(suffix))
		default:
			l.set(at, l.keys[i], value, nil)
		}
	}
}

func (l *loader) variableMeant(suffix string) string {
	names := l.names("redis")
	if meant := nearest(suffix, names); meant != "" {
		return ", did you mean " + EnvironmentPrefix + strings.ToUpper(meant) + "?"
	}
	return ": " + EnvironmentPrefix + "… is followed by " + strings.ToUpper(strings.Join(names, ", "))
}

const serviceLink = "was set by a container's link to a service named delayer-redis: switch the links off (Kubernetes: enableServiceLinks: false), or rename the service"

// isServiceLink recognizes what Kubernetes and docker --link put into a
// container for every service they know, whether it is wanted or not:
// DELAYER_REDIS_PORT=tcp://10.0.0.7:6379, DELAYER_REDIS_PORT_6379_TCP_ADDR …
func isServiceLink(suffix, value string) bool {
	return strings.HasPrefix(suffix, "SERVICE_") || strings.HasPrefix(suffix, "PORT_") ||
		suffix == "PORT" && strings.Contains(value, "://")
}
