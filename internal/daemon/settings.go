package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/view"
)

// runConfig lists the settings and their sources.
func runConfig(_ context.Context, c *call) (reply, error) {
	found, err := findConfiguration(c.options)
	if err != nil {
		return reply{}, err
	}
	list, err := settingsOf(c.options, found)
	return rowsOf("settings", list, "setting", "value", "from"), err
}

// settingsOf lists the settings of a configuration, without secrets.
func settingsOf(o options, found configuration) ([]view.Object, error) {
	path := o.configuration
	if path == "" && found.isFile {
		path = found.searched
	}
	settings, err := config.Settings(path)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	from := config.URLVariable
	if o.redis != "" {
		from = "--redis"
	}
	urls := ofURL(o, found.config.Redis)
	list := make([]view.Object, len(settings))
	for i, s := range settings {
		if value, is := urls[s.Name]; is && s.Section == "redis" && value != s.Value {
			s.Value, s.From = value, from
		}
		list[i] = view.Of("setting", s.Section+"."+s.Name, "value", s.Value, "from", s.From)
	}
	return list, nil
}

// ofURL returns the values of the keys of [redis] that a URL sets; nil without one.
func ofURL(o options, r config.Redis) map[string]string {
	if o.redis == "" && os.Getenv(config.URLVariable) == "" {
		return nil
	}
	values := map[string]string{
		"host": r.Host, "port": strconv.Itoa(r.Port), "database": strconv.Itoa(r.Database), "username": r.Username, "tls": fmt.Sprint(r.TLS),
		"sentinels": strings.Join(r.Sentinels, ","), "sentinel_master": r.SentinelMaster, "sentinel_username": r.SentinelUsername,
		"cluster": strings.Join(r.Cluster, ","), "partitions": strconv.Itoa(r.Partitions),
		"password": "", "sentinel_password": "",
	}
	if r.Password != "" {
		values["password"] = "(secret)"
	}
	if r.SentinelPassword != "" {
		values["sentinel_password"] = "(secret)"
	}
	return values
}
