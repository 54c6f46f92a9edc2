package store

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// The table in docs/wire-format.md, the reference for other clients, is correct.
func TestTagsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/wire-format.md")
	check(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| `(.+)` \\| 0x.*").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 9 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		id := row[1]
		want := fmt.Sprintf("| `%s` | `%s` | 0x%04x | %d | %d | %d |", id, redisconn.TagOf(id), redisconn.CRC16(redisconn.TagOf(id)), PartitionOf(id, 16), PartitionOf(id, 5), PartitionOf(id, 1024))
		if got := strings.TrimSpace(row[0]); got != want {
			t.Errorf("the row of %s:\n got %s\nwant %s", id, got, want)
		}
	}
}

// docs/scaling.md, in both languages, lists the right numbers of partitions per node with even ranges of slots.
func TestPartitionsOnNodes(t *testing.T) {
	for _, name := range []string{"scaling.md", "scaling.zh-CN.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		check(t, err)
		for _, n := range []int{16, 64} {
			row := fmt.Sprintf("| %d |", n)
			for _, nodes := range []int{2, 3, 4, 6} {
				row += " " + partitionsOnNodes(n, nodes) + " |"
			}
			if !strings.Contains(string(text), row+"\n") {
				t.Errorf("%s: want the row %s", name, row)
			}
		}
	}
}

func partitionsOnNodes(n, nodes int) string {
	const slots = 16384
	counts := make([]int, nodes)
	for i := range n {
		slot := redisconn.SlotOf(Keys{DefaultPrefix}.Partition(i).JobPool())
		node := 0
		for float64(slot) > math.Round(float64(slots)/float64(nodes)*float64(node+1)-1) { // the last slot of a node
			node++
		}
		counts[node]++
	}
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(counts)), ", "), "[]")
}

// KeyTable has the name of each method of Keys. The tables in docs/wire-format.md and keys.md have each key, with its type, and each channel.
func TestKeysInDocs(t *testing.T) {
	shared, err := os.ReadFile("../../docs/wire-format.md")
	check(t, err)
	own, err := os.ReadFile("keys.md")
	check(t, err)
	text := append(shared, own...)
	types := map[string]string{"sorted set": "zset"} // others have the same name there
	var documented, known, named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `delayer:([a-z_:{}0-9]*?)(?:<[^>]*>)*` \\| (sorted set|\\w+)").FindAllStringSubmatch(string(text), -1) {
		kind, ok := types[row[2]]
		if !ok {
			kind = row[2]
		}
		documented = append(documented, strings.TrimPrefix(row[1], "{0}:")+" "+kind)
	}
	for _, key := range KeyTable {
		kind := key.Type
		if kind == "channel" { // their table tells the message
			i := slices.IndexFunc(documented, func(row string) bool { return strings.HasPrefix(row, key.Name+" ") })
			kind = strings.TrimPrefix(documented[max(i, 0)], key.Name+" ")
		}
		known, named = append(known, key.Name+" "+kind), append(named, key.Name)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("documented are %q, there are %q", documented, known)
	}
	keys := reflect.ValueOf(Keys{})
	for i := range keys.NumMethod() {
		method := keys.Method(i)
		if name := keys.Type().Method(i).Name; name == "Prefix" || name == "Partition" || name == "FindKey" {
			continue // not a key
		}
		var of []reflect.Value // the argument of methods that take a name
		if method.Type().NumIn() == 1 {
			of = []reflect.Value{reflect.ValueOf("")}
		}
		if name := method.Call(of)[0].String(); !slices.Contains(named, name) {
			t.Errorf("KeyTable lacks %s", name)
		}
	}
}

// The description of a server's entry lists each field and the bounds of lateness.
func TestServersInDocs(t *testing.T) {
	text, err := os.ReadFile("keys.md")
	check(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Servers\n")
	section, _, _ = strings.Cut(section, "\n### ")
	entry := reflect.TypeFor[serverEntry]()
	for i := range entry.NumField() {
		if name := entry.Field(i).Tag.Get("json"); !strings.Contains(section, `"`+name+`":`) {
			t.Errorf("it lacks the field %s", name)
		}
	}
	bounds := ""
	for i, unit := range []struct {
		name string
		time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"min", time.Minute}, {"h", time.Hour}} {
		next := []time.Duration{time.Second, time.Minute, time.Hour, math.MaxInt64}[i]
		for _, bound := range LatenessBounds {
			if unit.Duration <= bound && bound < next {
				bounds += fmt.Sprintf("%d, ", bound/unit.Duration)
			}
		}
		bounds = strings.TrimSuffix(bounds, ", ") + " " + unit.name + ", "
	}
	if want := strings.TrimSuffix(bounds, ", ") + " ("; !strings.Contains(section, want) {
		t.Errorf("it lacks the bounds %q", want)
	}
}
