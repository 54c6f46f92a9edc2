package cli

import (
	"context"

	"github.com/mix-basic/delayer/internal/view"
)

// runConfig lists the settings and their sources.
func runConfig(_ context.Context, c *call) (reply, error) {
	list := make([]view.Object, len(c.found.Settings))
	for i, s := range c.found.Settings {
		list[i] = view.Of("setting", s.Name, "value", s.Value, "from", s.From)
	}
	return rowsOf("settings", list, "setting", "value", "from"), nil
}
