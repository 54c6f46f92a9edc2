package fsck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// A Redis that is killed comes back with a prefix of its AOF, which may end amid a transaction. Whatever the prefix, each job of the calls
// up to there is in exactly one state, fsck finds nothing, and a server and a consumer deliver each job once. Every tenth prefix is
// loaded by a redis-server, the others are replayed.
func TestAOFPrefixes(t *testing.T) {
	cuts := 200
	if testing.Short() {
		cuts = 40
	}
	r := record(t, 300)
	seed := rand.New(rand.NewPCG(1, 2))
	loaded := redistest.Start(t, "--appendonly", "yes", "--aof-use-rdb-preamble", "no")
	file := aofOf(t, loaded.Dir)
	d := newDrain(t)
	amid := 0
	for n := range cuts {
		at := seed.IntN(len(r.aof) + 1)
		if n%4 == 0 { // a boundary
			at = r.units[seed.IntN(len(r.units))].begins
		}
		if u := r.unitAt(at); u != nil && len(u.commands) > 1 && at > u.begins {
			amid++
		}
		d.load(r.until(at))
		state := d.State()
		if n%10 == 0 {
			loaded.Kill()
			redistest.Check(t, os.WriteFile(file, r.aof[:at], 0o600))
			loaded.Restart()
			loaded.Expect(state)
		}
		if complaint := d.check(state, r.modelsAt(at)); complaint != "" {
			t.Fatalf("the first %d bytes, after %s: %s", at, r.callAt(at), complaint)
		}
	}
	if amid < cuts/10 {
		t.Errorf("only %d cuts are amid a transaction", amid)
	}
}

// The test of prefixes notices a transaction of which Redis kept only a part.
func TestTornTransactionIsNoticed(t *testing.T) {
	r := record(t, 100)
	d := newDrain(t)
	torn := 0
	for i, u := range r.units {
		if bytes.Contains(r.aof[u.begins:u.ends], []byte("dead_")) { // State itself fails if the indices of dead letters disagree
			continue
		}
		upTo := r.until(u.ends)
		for n := 1; n < len(u.commands); n++ {
			if !movesJobs(u.commands[n-1]) || !slices.ContainsFunc(u.commands[n:], movesJobs) {
				continue
			}
			torn++
			d.load(upTo[:len(upTo)-len(u.commands)+n])
			if d.check(d.State(), r.modelsAt(u.ends)) == "" && d.check(d.State(), r.modelsAt(u.begins)) == "" {
				t.Errorf("unit %d after %s: nobody notices that only %q was kept", i, r.callAt(u.ends), u.commands[:n])
			}
		}
	}
	if torn < 10 {
		t.Errorf("only %d transactions were torn", torn)
	}
}

// movesJobs reports whether a command adds or removes entries of the pool or of a queue, or deletes a job.
func movesJobs(command [][]byte) bool {
	name := strings.ToLower(string(command[0])) + " " + strings.TrimPrefix(string(command[1]), "delayer:")
	return regexp.MustCompile(`^(zadd job_pool$|zrem job_pool$|(lpush|rpush|rpop|lrem|del) ready_queue:|(del|unlink) job_bucket:)`).MatchString(name)
}

// jobs is the model: what is to be delivered for each ID, in order (the second one follows the first), and the dead letters.
type jobs struct {
	alive map[string][]string // ID → "topic body"
	dead  map[string]string
}

func (j jobs) clone() jobs {
	alive := map[string][]string{}
	for id, list := range j.alive {
		alive[id] = slices.Clone(list)
	}
	return jobs{alive, maps.Clone(j.dead)}
}

// end ends the ID's first job: its follower takes its place.
func (j jobs) end(id string) {
	if j.alive[id] = j.alive[id][1:]; len(j.alive[id]) == 0 {
		delete(j.alive, id)
	}
}

func (j jobs) bury(id string) {
	j.dead[id] = j.alive[id][0]
	j.end(id)
}

// unit is one command, or the commands of a transaction.
type unit struct {
	begins, ends int // in the AOF
	commands     [][][]byte
}

// done is the end of a call.
type done struct {
	call  string
	bytes int
	jobs  jobs
}

// recording is an AOF, and what the calls that wrote it have left.
type recording struct {
	aof   []byte
	units []unit
	calls []done
}

// record makes calls one after the other on a redis-server with an AOF.
func record(t *testing.T, calls int) *recording {
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no", "--auto-aof-rewrite-percentage", "0")
	file := aofOf(t, redis.Dir)
	w := newWriter(t, redis)
	r := &recording{calls: []done{{jobs: w.jobs.clone()}}}
	for range calls {
		call := w.any()
		info, err := os.Stat(file)
		redistest.Check(t, err)
		r.calls = append(r.calls, done{call, int(info.Size()), w.jobs.clone()})
	}
	var err error
	r.aof, err = os.ReadFile(file)
	redistest.Check(t, err)
	r.units = parse(t, r.aof)
	return r
}

func aofOf(t *testing.T, dir string) string {
	t.Helper()
	for _, pattern := range []string{"appendonlydir/*.incr.aof", "appendonly.aof"} { // Redis 6.2 has one file
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) == 1 {
			return found[0]
		}
	}
	t.Fatal("no AOF in " + dir)
	return ""
}

// parse divides an AOF into units.
func parse(t *testing.T, aof []byte) (units []unit) {
	number := func(at *int, kind byte) int {
		end := bytes.Index(aof[*at:], []byte("\r\n")) + *at
		n, err := strconv.Atoi(string(aof[*at+1 : end]))
		if err != nil || aof[*at] != kind {
			t.Fatalf("the AOF at %d: %q", *at, aof[*at:end])
		}
		*at = end + 2
		return n
	}
	amid := false
	for at := 0; at < len(aof); {
		begins := at
		var command [][]byte
		for range number(&at, '*') {
			length := number(&at, '$')
			command = append(command, aof[at:at+length])
			at += length + 2
		}
		switch name := strings.ToLower(string(command[0])); {
		case name == "multi":
			units, amid = append(units, unit{begins: begins}), true
		case name == "exec":
			amid = false
		case amid:
			units[len(units)-1].commands = append(units[len(units)-1].commands, command)
		default:
			units = append(units, unit{begins: begins, commands: [][][]byte{command}})
		}
		units[len(units)-1].ends = at
	}
	return units
}

// until returns the commands of the whole units in the first bytes.
func (r *recording) until(at int) (commands [][][]byte) {
	for _, u := range r.units {
		if u.ends <= at {
			commands = append(commands, u.commands...)
		}
	}
	return commands
}

// unitAt returns the unit that a cut there leaves incomplete, nil for none.
func (r *recording) unitAt(at int) *unit {
	for i := range r.units {
		if r.units[i].begins <= at && at < r.units[i].ends {
			return &r.units[i]
		}
	}
	return nil
}

// modelsAt returns the models of the calls before and after a cut.
func (r *recording) modelsAt(at int) []jobs {
	i, _ := slices.BinarySearchFunc(r.calls, at, func(c done, at int) int { return c.bytes - at })
	if i == len(r.calls) {
		i--
	}
	return []jobs{r.calls[max(i-1, 0)].jobs, r.calls[i].jobs}
}

func (r *recording) callAt(at int) string {
	i, _ := slices.BinarySearchFunc(r.calls, at, func(c done, at int) int { return c.bytes - at })
	return r.calls[min(i, len(r.calls)-1)].call
}

// writer makes calls, and keeps the model.
type writer struct {
	*rand.Rand
	t      *testing.T
	client *client.Client
	server *server.Server
	jobs   jobs
	leases []*client.Delivery
	serial int
}

func newWriter(t *testing.T, s *redistest.Server) *writer {
	pool := redistest.Must(client.NewPool(client.PoolOptions{Addr: s.Addr}))
	c := client.New(pool)
	t.Cleanup(func() { c.Close(); pool.Close() })
	return &writer{rand.New(rand.NewPCG(3, 4)), t, c, server.New(pool, server.Options{}), jobs{map[string][]string{}, map[string]string{}}, nil, 0}
}

var aofTopics = []string{"t", "paused", "limited"}

// any makes a call at random, and returns its name.
func (w *writer) any() string {
	ctx, topic := w.t.Context(), aofTopics[w.IntN(len(aofTopics))]
	id, delay := fmt.Sprint("id", w.IntN(40)), []time.Duration{0, time.Millisecond, time.Hour}[w.IntN(3)]
	w.serial++
	m := client.Message{ID: id, Topic: topic, Body: fmt.Sprint(w.serial)}
	switch w.IntN(16) {
	case 0, 1, 2, 3:
		return w.push(m, delay)
	case 4:
		var batch []client.Delayed
		for i := range 5 {
			of := m
			of.ID = fmt.Sprint(id, "-", i)
			batch = append(batch, client.Delayed{Message: of, Delay: delay})
			w.jobs.alive[of.ID] = []string{topic + " " + of.Body}
		}
		_, err := w.client.PushBatch(ctx, batch)
		redistest.Check(w.t, err)
		return "PushBatch"
	case 5:
		m.ID = ""
		pushed, err := w.client.PushOne(ctx, client.Delayed{Message: m}, client.Group("k", client.GroupOptions{Max: 3, Longest: time.Hour}))
		redistest.Check(w.t, err)
		if pushed.Outcome == client.Created {
			w.jobs.alive[pushed.ID] = []string{topic + " [" + m.Body + "]"}
		} else {
			w.jobs.alive[pushed.ID][0] = strings.TrimSuffix(w.jobs.alive[pushed.ID][0], "]") + "," + m.Body + "]"
		}
		return "push to a group"
	case 6, 7:
		redistest.Check(w.t, w.server.Pass(ctx))
		return "a pass"
	case 8, 9:
		list, err := w.client.ReserveBatch(ctx, topic, 1+w.IntN(3), time.Hour)
		if !errors.Is(err, client.ErrEmpty) {
			redistest.Check(w.t, err)
		}
		w.leases = append(w.leases, list...)
		return "ReserveBatch"
	case 10, 11, 12:
		return w.settle()
	case 13:
		popped, err := w.client.Pop(ctx, topic)
		if !errors.Is(err, client.ErrEmpty) {
			redistest.Check(w.t, err)
			w.jobs.end(popped.ID)
		}
		return "Pop"
	case 14:
		return w.change(id, delay)
	}
	return w.operate()
}

func (w *writer) push(m client.Message, delay time.Duration) string {
	opts := map[string][]client.PushOption{
		"Push": nil, "Push with Refuse": {client.Refuse}, "Push with Once": {client.Once(time.Hour)}, "Push with Follow": {client.Follow},
		"Push with MaxAttempts": {client.MaxAttempts(1), client.TTR(time.Hour)},
	}
	name := slices.Sorted(maps.Keys(opts))[w.IntN(len(opts))]
	if name == "Push with MaxAttempts" { // other calls leave these alone: a lease that a Reschedule ends counts, so the next reserve would bury it
		m.ID = "last " + m.ID
	}
	pushed, err := w.client.PushOne(w.t.Context(), client.Delayed{Message: m, Delay: delay}, opts[name]...)
	if errors.Is(err, client.ErrExists) {
		return name
	}
	redistest.Check(w.t, err)
	next := m.Topic + " " + m.Body
	if pushed.Outcome == client.Followed {
		w.jobs.alive[m.ID] = []string{w.jobs.alive[m.ID][0], next}
	} else {
		w.jobs.alive[m.ID] = []string{next}
	}
	return name
}

// settle settles a job that was reserved.
func (w *writer) settle() string {
	if len(w.leases) == 0 {
		return "nothing"
	}
	i := w.IntN(len(w.leases))
	d := w.leases[i]
	w.leases = slices.Delete(w.leases, i, i+1)
	name, end := "Ack", d.Ack
	switch w.IntN(4) {
	case 0:
		name, end = "Retry", func(ctx context.Context) error { return d.Retry(ctx, time.Duration(w.IntN(2))*time.Hour) }
	case 1:
		name, end = "Bury", func(ctx context.Context) error { return d.Bury(ctx, "no") }
	}
	switch err := end(w.t.Context()); {
	case errors.Is(err, client.ErrLeaseLost):
	case errors.Is(err, client.ErrExhausted), err == nil && name == "Bury":
		w.jobs.bury(d.ID)
	default:
		redistest.Check(w.t, err)
		if name == "Ack" {
			w.jobs.end(d.ID)
		}
	}
	return name
}

// change removes, reschedules or requeues a job.
func (w *writer) change(id string, delay time.Duration) string {
	ctx := w.t.Context()
	switch w.IntN(3) {
	case 0:
		was, err := w.client.Remove(ctx, id)
		redistest.Check(w.t, err)
		if was {
			delete(w.jobs.alive, id)
			delete(w.jobs.dead, id)
		}
		return "Remove"
	case 1:
		if err := w.client.Reschedule(ctx, id, delay); !errors.Is(err, client.ErrNotFound) {
			redistest.Check(w.t, err)
		}
		return "Reschedule"
	}
	if dead := slices.Sorted(maps.Keys(w.jobs.dead)); len(dead) > 0 {
		if err := w.client.Requeue(ctx, dead[0]); !errors.Is(err, client.ErrExists) {
			redistest.Check(w.t, err)
			w.jobs.alive[dead[0]] = []string{w.jobs.dead[dead[0]]}
			delete(w.jobs.dead, dead[0])
		}
	}
	return "Requeue"
}

// operate does what an operator does.
func (w *writer) operate() string {
	ctx := w.t.Context()
	switch w.IntN(4) {
	case 0:
		redistest.Check(w.t, w.client.Pause(ctx, "paused", client.PauseOptions{}))
		return "Pause"
	case 1:
		_, err := w.client.Resume(ctx, "paused")
		redistest.Check(w.t, err)
		return "Resume"
	case 2:
		redistest.Check(w.t, w.client.SetLimit(ctx, "limited", client.Limit{Concurrency: 1 + w.IntN(3)}))
		return "SetLimit"
	}
	_, err := w.client.Schedule(ctx, client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "b"})
	redistest.Check(w.t, err)
	id, err := w.client.RunNow(ctx, "s")
	redistest.Check(w.t, err)
	w.jobs.alive[id] = []string{"t b"}
	return "RunNow"
}

// drain is a Redis on which prefixes are replayed, checked, and drained.
type drain struct {
	*fixture
	server *server.Server
}

func newDrain(t *testing.T) *drain {
	f := newFixture(t)
	return &drain{f, server.New(f.pool, server.Options{})}
}

// load replays commands.
func (d *drain) load(commands [][][]byte) {
	d.t.Helper()
	d.Flush()
	for _, command := range commands {
		args := make([]any, len(command)-1)
		for i, arg := range command[1:] {
			args[i] = arg
		}
		redistest.Check(d.t, d.conn.Send(string(command[0]), args...))
	}
	replies, err := redis.Values(d.conn.Do(""))
	redistest.Check(d.t, err)
	for _, reply := range replies {
		if err, failed := reply.(error); failed {
			d.t.Fatal(err)
		}
	}
}

// check returns what is wrong with the state, given the models of which one must hold; it is then drained.
func (d *drain) check(state redistest.State, models []jobs) string {
	if complaint := oneStateEach(state); complaint != "" {
		return complaint
	}
	models = slices.Clone(models)
	complaint := ""
	models = slices.DeleteFunc(models, func(m jobs) bool {
		differs := m.differs(state)
		complaint = cmp.Or(complaint, differs)
		return differs != ""
	})
	if len(models) == 0 {
		return complaint
	}
	report, err := New(d.pool, "", fleet.Layout{}, Options{Wait: 10 * time.Millisecond}).Run(d.ctx)
	redistest.Check(d.t, err)
	if len(report.Findings) > 0 {
		return fmt.Sprintf("fsck finds %+v", report.Findings)
	}
	delivered := d.deliver(state)
	complaint = ""
	for _, m := range models { // both, if they differ by a follower only
		differs := cmp.Or(m.notDelivered(delivered), jobs{dead: m.dead}.differs(d.State()))
		if differs == "" {
			return ""
		}
		complaint = cmp.Or(complaint, differs)
	}
	return complaint
}

// notDelivered says how the deliveries differ from the model.
func (j jobs) notDelivered(delivered map[string][]string) string {
	texts := func(of map[string][]string) map[string]string {
		all := map[string]string{}
		for id, list := range of {
			all[id] = strings.Join(list, "; then ")
		}
		return all
	}
	return difference("after the delivery job", texts(delivered), texts(j.alive))
}

// deliver makes all jobs due, and ends all leases, as a consumer's death does; then a server and a consumer do their work.
func (d *drain) deliver(state redistest.State) map[string][]string {
	const pool = "delayer:job_pool"
	for _, id := range state.Pool {
		if !isSchedule(id) {
			d.Do("ZADD", pool, "XX", "1000", id)
		}
	}
	for _, id := range state.Reserved {
		d.Do("ZADD", pool, "XX", "1000.0005", id)
	}
	_, err := d.client.Resume(d.ctx, "paused")
	redistest.Check(d.t, err)
	delivered := map[string][]string{}
	for idle := 0; idle < 2; {
		redistest.Check(d.t, d.server.Pass(d.ctx))
		idle++
		for _, topic := range aofTopics {
			list, err := d.client.PopBatch(d.ctx, topic, 1000)
			if !errors.Is(err, client.ErrEmpty) {
				redistest.Check(d.t, err)
			}
			for _, m := range list {
				idle = 0
				delivered[m.ID] = append(delivered[m.ID], m.Topic+" "+m.Body)
			}
		}
		for _, id := range d.State().Pool { // followers that wait
			if !isSchedule(id) {
				idle = 0
				d.Do("ZADD", pool, "XX", "1000", id)
			}
		}
	}
	return delivered
}

func isSchedule(id string) bool { return strings.HasSuffix(id, "@schedule") }

// oneStateEach says which job is in no state or in several.
func oneStateEach(s redistest.State) string {
	places := map[string]int{}
	count := func(ids []string) {
		for _, id := range ids {
			places[id]++
		}
	}
	count(s.Pool)
	count(s.Reserved)
	for _, queues := range []map[string][]string{s.Ready, s.Paused} {
		for _, queue := range queues {
			count(queue)
		}
	}
	for id := range s.Buckets {
		if places[id] != 1 {
			return fmt.Sprintf("%s is in %d states", id, places[id])
		}
	}
	return ""
}

// differs says how a state differs from the model.
func (j jobs) differs(s redistest.State) string {
	is := map[string]string{}
	for id, content := range s.Buckets {
		if !isSchedule(id) {
			is[id] = content
		}
	}
	want := map[string]string{}
	for id, list := range j.alive {
		want[id] = list[0]
	}
	return cmp.Or(difference("job", is, want), difference("dead letter", s.Letters, j.dead))
}

// difference names the first difference.
func difference(kind string, is, want map[string]string) string {
	for _, id := range slices.Sorted(maps.Keys(is)) {
		if is[id] != want[id] {
			return fmt.Sprintf("%s %s is %q, want %q", kind, id, is[id], want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if is[id] != want[id] {
			return fmt.Sprintf("%s %s is missing, want %q", kind, id, want[id])
		}
	}
	return ""
}
