package fsck

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
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
