package daemon

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/exit"
)

// reloadable lists the settings, besides schedules, that a reload applies. Certificates are reloaded
// automatically.
var reloadable = []string{
	"delayer.dead_max_age", "delayer.dead_max", "http.token", "http.token_file", "http.users", "http.users_file",
}

// again reads the configuration again. Relative paths in it are relative to the folder that the service was started in. All that is
// opened later has a full path.
func (s *service) again() (Configuration, error) {
	if s.folder != "" {
		if err := os.Chdir(s.folder); err != nil {
			return Configuration{}, err
		}
		defer os.Chdir("/")
	}
	return FindConfiguration(s.options)
}

// reload reads the configuration again, applies the settings that can change while the daemon runs, and logs other
// changes. A mistake changes nothing.
func (s *service) reload() {
	found, err := s.again()
	if err != nil {
		s.log.Error("The configuration was not reloaded, the previous one stays in force: " + exit.OneLine(err.Error()))
		return
	}
	var waiting []string
	for i, setting := range found.Settings {
		if setting.Value != s.found.Settings[i].Value && !slices.Contains(reloadable, setting.Name) {
			waiting = append(waiting, setting.Name)
		}
	}
	c := found.Config
	if r := s.found.Redis; c.Redis.Password != r.Password || c.Redis.SentinelPassword != r.SentinelPassword {
		waiting = append(waiting, "redis: a password")
	}
	s.server.SetDeadLimits(cmp.Or(c.Delayer.DeadMaxAge, -1), c.Delayer.DeadMax)
	switch users := usersOf(c.HTTP); {
	case s.http == nil:
	case c.HTTP.Token == "" && len(users) == 0 && s.secured:
		waiting = append(waiting, "http: no token and no users") // with another listen address this may be intended for localhost
	default:
		s.http.web.SetCredentials(c.HTTP.Token, users)
		s.secured = c.HTTP.Token != "" || len(users) > 0
	}
	if found.File != "" {
		select {
		case <-s.newSchedules: // from an unhandled reload
		default:
		}
		s.newSchedules <- c.Schedules
	}
	line := "Configuration reloaded: schedules, token, users and limits of dead letters are in force"
	if len(waiting) > 0 {
		line += "; a restart is needed for " + strings.Join(waiting, ", ")
	}
	if os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		line += "; systemd loads new credentials at a restart only"
	}
	s.log.Info(line)
	for _, w := range found.Warnings {
		s.log.Error(fmt.Sprint(w))
	}
}
