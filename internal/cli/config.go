package cli

import "context"

// runConfig lists the settings and their sources.
func runConfig(_ context.Context, c *call) (reply, error) {
	list, err := c.found.Settings()
	return rowsOf("settings", list, "setting", "value", "from"), err
}
