package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

// started is the start time of each run of the server.
var started = map[string]time.Time{"run1": time.Unix(1600000000, 0), "run2": time.Unix(1700000003, 0)}

// read passes totals of one server and a number of ready jobs to the sampler.
func (s *sampler) read(at time.Time, run string, moved, acked int64, ready int) *sample {
	state := store.ServerState{ID: run, Age: time.Second, Started: started[run]}
	state.Moved = moved
	state.Lateness.Counts[3] = moved // each is 5 to 10 ms late
	next := &sample{At: at, Ready: ready, Beats: beats{List: []store.ServerState{state}, Acked: acked}}
	next.Counts = inspect.Counts{Time: at, Topics: []inspect.TopicCounts{{Topic: "topic", Ready: ready}}}
	s.follow(next)
	s.last = next
	return next
}

// TestRates derives rates from totals, also across a restart of the server, and the capacity of the
// consumers.
func TestRates(t *testing.T) {
	s := newSampler(nil, nil)
	at := time.Unix(1700000000, 0)
	first := s.read(at, "run1", 1000, 50, 10)
	if first.Rates.Known || s.view().Taken != 0 || !first.Rates.LateSinceEver || first.Rates.Late.Jobs() != 1000 {
		t.Errorf("of one reading: %+v, %+v", first.Rates, s.view())
	}
	// 100 a second became ready and 60 a second remain, so 40 a second were taken.
	second := s.read(at.Add(2*time.Second), "run1", 1200, 60, 130)
	if r := second.Rates; !r.Known || r.Moved != 100 || r.Acked != 5 || r.Late.Jobs() != 200 || r.LateSinceEver || r.Late.Quantile(0.99) < 5*time.Millisecond || r.Late.Quantile(0.99) > 10*time.Millisecond {
		t.Errorf("of two readings: %+v", r)
	}
	if s.view().Taken != 40 || second.Changes["topic"] != 60 {
		t.Errorf("taken %v, changes %v", s.view().Taken, second.Changes)
	}
	// The server restarted, so its totals begin at 0.
	third := s.read(at.Add(4*time.Second), "run2", 8, 60, 130)
	if r := third.Rates; r.Moved != 2 || r.Late.Jobs() != 8 {
		t.Errorf("of another run: %+v", r)
	}
	// Samples older than the window don't count, and an unobserved period has no mean.
	s.read(at.Add(6*time.Second), "run2", 8, 60, 130)
	gap := s.read(at.Add(22*time.Second), "run2", 50000, 60000, 130)
	if gap.Rates.Known || gap.Changes != nil {
		t.Errorf("after a gap: %+v, %v", gap.Rates, gap.Changes)
	}
	last := s.read(at.Add(28*time.Second), "run2", 50000, 60000, 0)
	if r := last.Rates; r.Moved != 0 || r.Acked != 0 {
		t.Errorf("of the last seconds: %+v", r)
	}
	if most := s.view().Taken; most != 40 {
		t.Errorf("taken %v", most)
	}
	if c := columns(s.points); len(c) != 7 || slices.ContainsFunc(c, func(column []any) bool { return len(column) != 6 }) || c[1][0] != nil || c[1][1] != 100.0 || c[1][4] != nil {
		t.Errorf("columns: %v", c)
	}
	// A server that seemed to be gone is back.
	if r := s.read(at.Add(29*time.Second), "run1", 5000, 60, 0).Rates; r.Moved != 0 || r.Late.Jobs() != 5000 || !r.LateSinceEver {
		t.Errorf("of one that was thought to be gone: %+v", r)
	}
	for i := range 2 * kept {
		s.read(at.Add(time.Duration(30+i)*time.Second), "run2", 8, 60, 0)
	}
	if len(s.points) != kept {
		t.Errorf("%d points are kept", len(s.points))
	}
}

// TestLook polls Redis once, however many viewers there are, and never without viewers.
func TestLook(t *testing.T) {
	f := start(t, web.Options{})
	s := f.dashboard.sampler
	first, err := s.latest(t.Context())
	check(t, err)
	second, err := s.latest(t.Context())
	check(t, err)
	if first.sample != second.sample && second.At.Sub(first.At) < samplePause {
		t.Error("asked twice within a second")
	}
	if now := time.Now(); !s.watched(now) || s.watched(now.Add(watchWait+time.Second)) {
		t.Error("watched in another time")
	}
	if newSampler(nil, nil).watched(time.Now()) {
		t.Error("watched before anybody has looked")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.turn <- struct{}{} // a slow poll is in flight
	if _, err := s.latest(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves gets %v", err)
	}
	<-s.turn
}

// TestFirstViewerLeaves checks that, if the viewer whose request polls a silent Redis leaves, later viewers
// still get the result.
func TestFirstViewerLeaves(t *testing.T) {
	f := start(t, web.Options{})
	if _, err := f.dashboard.inspector.Counts(t.Context()); err != nil { // opens a connection
		t.Fatal(err)
	}
	f.Hang()
	defer f.Continue()
	s := f.dashboard.sampler
	leaving, leave := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	ask := func(ctx context.Context) { _, err := s.latest(ctx); errs <- err }
	go ask(leaving)
	eventually(t, "the first one asks", func() bool { return len(s.turn) == 1 })
	go ask(t.Context())
	leave()
	f.Continue()
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("one of them gets %v", err)
		}
	}
}

// TestJoinedPoints checks that recorded points replace the servers' history, in order, without duplicates,
// and with gaps where neither exists.
func TestJoinedPoints(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1700000000+int64(s), 0) }
	kept := func(s int, acked int64, jobs ...int64) store.Past {
		p := store.Past{From: at(s), Until: at(s + 10), Acked: acked}
		copy(p.Lateness.Counts[:], jobs)
		return p
	}
	seen := func(seconds ...int) (points []point) {
		for _, s := range seconds {
			points = append(points, point{At: at(s), Ready: 1, Taken: float64(s)})
		}
		return points
	}
	past := []store.Past{kept(-4000, 0, 1), kept(-500, 5), kept(0, 10, 50), kept(10, 30), kept(20, -1, 20), kept(30, 80), kept(40, 85), kept(100, 95)}
	points := pointsOf(past, least)
	if p := points[2]; p.Moved != 5.0 || p.Worst == nil || p.Worst.(float64) > 1 || p.Acked != nil {
		t.Errorf("of the first after a gap: %+v", p)
	}
	if p := points[3]; p.Acked != 2.0 || p.Taken != 2 || p.Median != nil || p.Worst != nil || p.Moved != 0.0 {
		t.Errorf("of one without jobs: %+v", p)
	}
	if points[4].Acked != nil || points[5].Acked != nil || points[6].Acked == nil {
		t.Errorf("of unknown numbers: %+v", points)
	}
	type place struct {
		s    int
		kind string
	}
	var got []place
	for _, p := range join(points, seen(21, 22, 29, 95, 96), 10*time.Second, least) {
		kind := "hole"
		if p.Ready != nil {
			kind = "seen"
		} else if p.Moved != nil {
			kind = "kept"
		}
		got = append(got, place{int(p.At.Unix() - at(0).Unix()), kind})
	}
	want := []place{{-490, "kept"}, {-490, "hole"}, {10, "kept"}, {20, "kept"}, {21, "seen"}, {22, "seen"}, {29, "seen"}, {40, "kept"}, {50, "kept"}, {50, "hole"}, {95, "seen"}, {96, "seen"}, {110, "kept"}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if join(nil, nil, time.Second, least) != nil {
		t.Error("there is something of nothing")
	}
	// Viewers who leave just after a step of history began leave no gap, even if an idle server skips the next step.
	for _, p := range join(pointsOf([]store.Past{kept(0, 0, 5), kept(10, 0, 5), kept(30, 0, 5)}, least), seen(5, 8, 11), 10*time.Second, least) {
		if p.Ready == nil && p.Moved == nil {
			t.Errorf("a hole at %v", p.At)
		}
	}
	all := seen(1, 2, 3)
	for since, want := range map[string]int{"": 3, "x": 3, "NaN": 3, "1700000000": 3, "1700000002": 1, "1700000003": 0, "1700000001.5": 2, "inf": 0} {
		if got := after(all, since); len(got) != want {
			t.Errorf("after %q there are %d", since, len(got))
		}
	}
}

// TestHistoryIsShown checks that the last hour is on the page at once, even after a restart of the HTTP
// server, and that unrecorded time is a gap.
func TestHistoryIsShown(t *testing.T) {
	f := start(t, web.Options{})
	clock := int64(f.Clock())
	slot := clock / 10
	for n, entry := range map[int64]string{200: "100 3:500", 199: "400 3:20,5:10", 2: "400 ", 1: "410 2:10"} {
		f.Do("HSET", "delayer:history", (slot-n)%360, fmt.Sprintf("%d %s", slot-n, entry))
	}
	var live struct{ Charts [][]*float64 }
	check(t, json.Unmarshal([]byte(f.get("/ui/live.json").body), &live))
	number := func(column, row int) any {
		if v := live.Charts[column][row]; v != nil {
			return *v
		}
		return nil
	}
	want := [][]any{{50.0, nil}, {3.0, 30.0}, {nil, nil}, {0.0, nil}, {1.0, 1.0}}
	if len(live.Charts[0]) < len(want) {
		t.Fatalf("the charts: %v", live.Charts)
	}
	for row, want := range want {
		if moved, acked := number(1, row), number(2, row); moved != want[0] || acked != want[1] {
			t.Errorf("point %d: moved %v, acked %v, want %v", row, moved, acked, want)
		}
	}
	// New history is read in time, but not every second.
	s := f.dashboard.sampler
	f.Do("HSET", "delayer:history", (slot-3)%360, fmt.Sprintf("%d 405 ", slot-3))
	for _, c := range []struct {
		ago  time.Duration
		kept int
	}{{pastStep / 2, 4}, {pastStep, 5}} {
		s.pastAt = time.Now().Add(-c.ago)
		s.changed.Store(true)
		if _, err := s.latest(t.Context()); err != nil || len(s.past) != c.kept {
			t.Errorf("after %v there are %d, %v", c.ago, len(s.past), err)
		}
	}
	var more struct{ Charts [][]*float64 }
	if err := json.Unmarshal([]byte(f.get(fmt.Sprintf("/ui/live.json?since=%d", clock-5)).body), &more); err != nil || len(more.Charts[0]) == 0 || len(more.Charts[0]) >= len(want) {
		t.Errorf("what is new: %v, %v", more.Charts, err)
	}
}

// The first page after a while shows the rates of the servers' history. It neither claims that no job fell
// due nor makes a gap in the charts. Without a history it shows nothing for the last seconds.
func TestFirstLook(t *testing.T) {
	f := start(t, web.Options{})
	f.Do("HSET", "delayer:servers", "old", fmt.Sprintf(`{"now":%d,"started":1,"interval":1000,"host":"h","pid":1,"version":"1","moved":10,"returned":0,"dropped":0,"passes":1,"lateness":[10%s],"late":0,"error":""}`,
		int64(f.Clock()*1000), strings.Repeat(",0", len(store.Lateness{}.Counts)-1)))
	if got := f.get("/").body; strings.Contains(got, "No job fell due") || !strings.Contains(got, "since the servers started") {
		t.Errorf("without a history: %s", got)
	}
	slot := int64(f.Clock()) / 10
	for n, entry := range map[int64]string{2: "400 1:10", 1: "410 1:50"} {
		f.Do("HSET", "delayer:history", (slot-n)%360, fmt.Sprintf("%d %s", slot-n, entry))
	}
	f.dashboard.sampler = newSampler(f.dashboard.inspector, nil)
	v, err := f.dashboard.sampler.latest(t.Context())
	check(t, err)
	if r := v.Rates; !r.Known || r.Moved != 5 || r.Acked != 1 || r.Late.Jobs() != 50 || r.LateSinceEver {
		t.Errorf("the first look: %+v", r)
	}
	if last := v.Points[len(v.Points)-1]; last.Ready == nil || last.Moved != 5.0 || last.Acked != 1.0 || last.Worst == nil {
		t.Errorf("the first point: %+v", last)
	}
	if got := f.get("/").body; strings.Contains(got, "since the servers started") {
		t.Errorf("with a history: %s", got)
	}
	// Shortly after, the servers may not have reported anything new.
	f.dashboard.sampler.changed.Store(true)
	v, err = f.dashboard.sampler.latest(t.Context())
	check(t, err)
	if r := v.Rates; len(f.dashboard.sampler.recent) < 2 || !r.Known || r.Moved != 5 || r.Acked != 1 || r.LateSinceEver {
		t.Errorf("the look after it: %+v", r)
	}
}

// TestLive follows a working server.
func TestLive(t *testing.T) {
	f := start(t, web.Options{})
	stop := redistest.Background(t, server.New(f.Pool(), server.Options{Version: "9.8.7"}).Run)
	stopSampling := redistest.Background(t, func(ctx context.Context) error { f.dashboard.Run(ctx); return nil })
	f.push("topic", "id", "body", 50*time.Millisecond)
	f.reserve("topic").Ack(t.Context())
	check(t, f.Pause(t.Context(), "paused", client.PauseOptions{}))
	var live struct {
		Parts  map[string]string
		Charts [][]*float64
	}
	eventually(t, "the server is seen", func() bool {
		got := f.get("/ui/live.json", "Accept-Language", "zh")
		got.has(t, "live", http.StatusOK)
		check(t, json.Unmarshal([]byte(got.body), &live))
		return strings.Contains(live.Parts["servers"], "9.8.7") && strings.Contains(live.Parts["numbers"], "毫秒") && len(live.Charts[0]) >= 2
	})
	stop()
	stopSampling()
	for _, name := range liveParts {
		if name == "partitions" { // absent with one partition
			if _, there := live.Parts[name]; there || strings.Contains(f.get("/").body, `data-part="partitions"`) {
				t.Errorf("a single partition is shown: %s", live.Parts[name])
			}
		} else if live.Parts[name] == "" || !strings.Contains(f.get("/").body, `data-part="`+name+`"`) {
			t.Errorf("no part %s", name)
		}
	}
	if !strings.Contains(live.Parts["status"], `data-level="ok"`) {
		t.Errorf("status: %s", live.Parts["status"])
	}
}

// TestStatus checks the verdicts.
func TestStatus(t *testing.T) {
	alive := beats{List: []store.ServerState{{Age: time.Second}}}
	failing := beats{List: []store.ServerState{{Age: time.Second, Error: "refused", Host: "<host>"}}}
	for _, c := range []struct {
		name        string
		s           sample
		level, says string
	}{
		{"nothing there", sample{}, "ok", "No job is overdue"},
		{"at work", sample{Beats: alive, Counts: inspect.Counts{Pool: 5}}, "ok", "No job is overdue"},
		{"old server", sample{Counts: inspect.Counts{Pool: 5}}, "warn", "no server has reported"},
		{"a bit late", sample{Beats: alive, Counts: inspect.Counts{Pool: 5, Overdue: 3 * time.Second}}, "warn", "3 s overdue"},
		{"late", sample{Beats: alive, Counts: inspect.Counts{Pool: 5, Overdue: time.Minute}}, "bad", "1 min overdue"},
		{"nobody moves", sample{Counts: inspect.Counts{Pool: 5, Overdue: time.Minute}}, "bad", "no server has reported"},
		{"late in one", sample{Beats: alive, Counts: inspect.Counts{Pool: 5, Overdue: time.Minute, Partitions: []inspect.PartitionCounts{{Overdue: time.Second}, {Number: 1, Overdue: time.Minute}, {Number: 2}}}}, "bad", "Partition 1 is the latest."},
		{"late in one, and nobody knows of another", sample{Beats: alive, Counts: inspect.Counts{Overdue: inspect.Unknown, Partitions: []inspect.PartitionCounts{{Overdue: time.Minute}, {Number: 1, Overdue: inspect.Unknown}}}}, "bad", "Partition 1 is the latest."},
		{"unreadable", sample{Beats: alive, Counts: inspect.Counts{Overdue: inspect.Unknown}}, "bad", "can't be read"},
		{"failing", sample{Beats: failing}, "warn", "<host>"},
		{"neglected", sample{Beats: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", AtLeast: time.Second}, {Topic: "b\x00", AtLeast: time.Hour}}}}, "warn", `\x00`},
		{"a schedule is late", sample{Beats: alive, seldom: seldom{Schedules: inspect.ScheduleStates{Active: 1, Overdue: time.Minute}}}, "warn", "A schedule is 1 min overdue"},
		{"schedules are on time", sample{Beats: alive, seldom: seldom{Schedules: inspect.ScheduleStates{Active: 1, Overdue: time.Second}}}, "ok", "No job is overdue"},
		{"paused", sample{Beats: alive, Pauses: inspect.Pauses{{Topic: "a"}}, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", AtLeast: time.Hour}}}}, "ok", "No job is overdue"},
		{"throttled", sample{Beats: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", Ready: 1, Throttled: 1, Overdue: inspect.Unknown}}}}, "ok", "No job is overdue"},
		{"nobody knows", sample{Beats: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a"}, {Topic: "b", Ready: 1, Overdue: inspect.Unknown, AtLeast: time.Second}}}}, "warn", "unknown for how long"},
		{"nobody is there to know of", sample{Beats: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "b", Overdue: inspect.Unknown}}}}, "ok", "No job is overdue"},
	} {
		if st := english.statusOf(&c.s); st.Level != c.level || !strings.Contains(st.Line+fmt.Sprintf("%q", st.More), c.says) {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

// Hanging sentinels do not delay Redis's numbers.
func TestSentinelsThatHang(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "a", "body", time.Hour)
	s := newSampler(f.dashboard.inspector, func(ctx context.Context) (string, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 500*time.Millisecond {
			t.Errorf("a look waits for them until %v", deadline)
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if v, err := s.latest(ctx); err != nil || v.Waiting != 1 || v.Master != "" {
		t.Errorf("%+v, %v", v.Counts, err)
	}
}
