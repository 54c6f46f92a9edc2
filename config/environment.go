package config

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

const environmentPrefix = "DELAYER_REDIS_"

// variable is the name of the environment variable that overrides the key, ""
// for a key that has none.
func (k key) variable() string {
	if k.section != "redis" {
		return ""
	}
	return environmentPrefix + strings.ToUpper(k.name)
}

// environment lets the variables override the file. One that is set and empty
// overrides as well.
func (l *loader) environment(environ []string) {
	values := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		if strings.HasPrefix(name, environmentPrefix) {
			values[name] = value
		}
	}
	for _, k := range keys {
		if value, ok := values[k.variable()]; ok {
			delete(values, k.variable())
			l.source[k.String()] = Problem{Key: k.variable()}
			l.override(k, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l.refuse(Problem{Key: shortened(name), Message: unknownVariable(name, values[name])})
	}
}

func (l *loader) override(k key, value string) {
	if isServiceLink(k.variable(), value) {
		l.refuseKey(k.String(), serviceLink)
		return
	}
	l.set(k, value)
}

func unknownVariable(name, value string) string {
	if isServiceLink(name, value) {
		return serviceLink
	}
	var known []string
	for _, k := range keys {
		if k.variable() != "" {
			known = append(known, strings.TrimPrefix(k.variable(), environmentPrefix))
		}
	}
	if meant := nearest(strings.TrimPrefix(name, environmentPrefix), known); meant != "" {
		return "unknown variable, did you mean " + environmentPrefix + meant + "?"
	}
	return "unknown variable: " + environmentPrefix + "… is followed by " + strings.Join(known, ", ")
}

const serviceLink = "was set by a container's link to a service named delayer-redis: switch the links off (Kubernetes: enableServiceLinks: false), or rename the service"

// isServiceLink recognizes what Kubernetes and docker --link put into a
// container for every service they know, whether it is wanted or not:
// DELAYER_REDIS_PORT=tcp://10.0.0.7:6379, DELAYER_REDIS_PORT_6379_TCP_ADDR …
func isServiceLink(name, value string) bool {
	name = strings.TrimPrefix(name, environmentPrefix)
	return strings.HasPrefix(name, "SERVICE_") || strings.HasPrefix(name, "PORT_") ||
		name == "PORT" && strings.Contains(value, "://")
}
