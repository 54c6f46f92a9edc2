package worker_test

import (
	"context"
	"errors"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

type hookKey struct{}

// The Client's hooks see how a worker takes, handles and settles each job. The handler, and what settles its job, have
// the context of the hook for the handler.
func TestClientHooks(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(context.Context) error
		want   []string
	}{
		"done":      {func(context.Context) error { return nil }, []string{"handle <nil>", "ack <nil>"}},
		"failed":    {func(context.Context) error { return errors.New("no") }, []string{"handle no", "retry <nil>"}},
		"released":  {func(context.Context) error { return worker.Release(time.Hour) }, []string{"handle <nil>", "release <nil>"}},
		"buried":    {func(context.Context) error { return worker.Bury(errors.New("no")) }, []string{"handle no", "bury <nil>"}},
		"panicking": {func(context.Context) error { panic("no") }, []string{"handle panic: no", "retry <nil>"}},
		"exiting":   {func(context.Context) error { runtime.Goexit(); return nil }, []string{"handle the handler has called runtime.Goexit", "retry <nil>"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			var mu sync.Mutex
			var seen []string
			hook := func(ctx context.Context, call *client.Call) (context.Context, func()) {
				if within := ctx.Value(hookKey{}); (call.Operation != "handle") != (within == "the handler's") {
					t.Errorf("%s is in the context of %v", call.Operation, within)
				}
				return context.WithValue(ctx, hookKey{}, "the handler's"), func() {
					mu.Lock()
					defer mu.Unlock()
					text, _, _ := strings.Cut(errorText(call.Err), "\n")
					seen = append(seen, call.Operation+" "+text)
					if len(call.Jobs) != 1 || call.Jobs[0].ID != "a" || call.Jobs[0].Attempt != 1 {
						t.Errorf("%s has jobs %+v", call.Operation, call.Jobs)
					}
				}
			}
			hooked := redistest.Must(client.OpenPool(f.reach(client.PoolOptions{}), client.WithPrefix(f.Prefix), client.WithHooks(client.Hooks{Settle: hook, Handle: hook})))
			defer hooked.Close()
			mux := one(func(ctx context.Context, _ *worker.Job) error {
				if ctx.Value(hookKey{}) != "the handler's" {
					t.Error("the handler's context is not the hook's")
				}
				return c.handle(ctx)
			})
			f.push("a", "t")
			ended := make(chan struct{})
			go func() { // which Goexit ends
				defer close(ended)
				worker.New(hooked, mux, worker.Options{Logger: slog.New(slog.DiscardHandler)}).RunOne(t.Context(), "t")
			}()
			<-ended
			if !slices.Equal(seen, c.want) {
				t.Errorf("hooks have seen %q, want %q", seen, c.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}
