package server

import (
	"testing"

	"github.com/mix-basic/delayer/internal/testing/importtest"
)

// A program that embeds the server links only redigo and our own packages.
func TestImports(t *testing.T) {
	importtest.Only(t,
		"github.com/mix-basic/delayer/server",
		"github.com/mix-basic/delayer/client",
		"github.com/mix-basic/delayer/internal/batch",
		"github.com/mix-basic/delayer/internal/cron",
		"github.com/mix-basic/delayer/internal/duration",
		"github.com/mix-basic/delayer/internal/fleet",
		"github.com/mix-basic/delayer/internal/pushrule",
		"github.com/mix-basic/delayer/internal/redisconn",
		"github.com/mix-basic/delayer/internal/store",
		"github.com/mix-basic/delayer/internal/wait",
		"github.com/gomodule/redigo/redis")
}
