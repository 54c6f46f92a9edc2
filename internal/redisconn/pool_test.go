package redisconn

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Connections that were needed since the last check are kept even if they are idle now. Others are closed, except a few; then nothing is
// checked until there are more connections.
func TestThinnerKeepsWhatIsNeeded(t *testing.T) {
	pool := redistest.Start(t).Pool()
	pool.TestOnBorrowContext = CheckRested
	thinner := Thin(pool, KeptIdle, time.Hour) // the test looks
	borrow := func(n int) {
		t.Helper()
		var conns []redis.Conn
		for range n {
			conn, err := pool.GetContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		for _, conn := range conns {
			conn.Close()
		}
	}
	const crowd = 3 * KeptIdle
	for step, c := range []struct {
		needed, left int
		watching     bool
	}{
		{KeptIdle, KeptIdle, false},
		{crowd, crowd, true},
		{0, crowd, true}, // they were opened since the last look
		{crowd - 1, crowd - 1, true},
		{KeptIdle + 2, KeptIdle + 2, true},
		{1, KeptIdle, false}, // what is needed is among those that are kept
		{KeptIdle + 1, KeptIdle + 1, true},
	} {
		if borrow(c.needed); step != 1 && thinner.watching.Load() {
			thinner.thin()
		}
		if n := pool.ActiveCount(); n != c.left || thinner.watching.Load() != c.watching {
			t.Errorf("step %d: %d connections, watched: %v, want %d, %v", step, n, thinner.watching.Load(), c.left, c.watching)
		}
	}
}
