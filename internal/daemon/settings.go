package daemon

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

// Settings lists the settings and their sources, without secrets.
func (c Configuration) Settings() ([]view.Object, error) {
	settings, err := config.Settings(c.File)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	from := config.URLVariable
	if c.options.Redis != "" {
		from = "--redis"
	}
	urls := c.ofURL()
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
func (c Configuration) ofURL() map[string]string {
	if c.options.Redis == "" && os.Getenv(config.URLVariable) == "" {
		return nil
	}
	r := c.Redis
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
