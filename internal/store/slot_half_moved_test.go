package store

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// occurrenceForm matches the occurrence in the ID of a schedule's job.
var occurrenceForm = regexp.MustCompile(`@(now-|\d\d\d\d-).*`)

// halfMoved is a slot with some of its keys already on another node.
type halfMoved struct {
	*redistest.Move
	tb     testing.TB
	prefix string
	conns  map[*redistest.Server]redis.Conn // to the two nodes
}

// cut splits a key into its kind and what it belongs to.
func (h halfMoved) cut(key string) (name, of string) {
	name, of, _ = strings.Cut(strings.TrimPrefix(key, h.prefix), ":")
	return name, of
}

// places returns the keys of each job, on both nodes. A group is listed under its key, and its bucket under its body too. Topics and
// schedules are listed by name.
func (h halfMoved) places() map[string][]string {
	all := map[string][]string{}
	for server, conn := range h.conns {
		keys := server.Strings("KEYS", "*")
		for _, key := range keys { // pipelined, because the test does it thousands of times
			conn.Send("ASKING")
			switch name, _ := h.cut(key); name {
			case "job_pool", "dead_letters", "schedules":
				conn.Send("ZRANGE", key, 0, -1)
			case "ready_queue", "paused_queue":
				conn.Send("LRANGE", key, 0, -1)
			case "limits", "paused", "set_aside":
				conn.Send("HKEYS", key)
			case "job_bucket", "dead_letter":
				conn.Send("HMGET", key, "body")
			default:
				conn.Send("PING")
			}
		}
		if len(keys) == 0 {
			continue
		}
		replies, err := redis.Values(conn.Do(""))
		redistest.Check(h.tb, err)
		for i, key := range keys {
			name, of := h.cut(key)
			ids, _ := redis.Strings(replies[2*i+1], nil) // none of a PING
			body := ""
			if name == "job_bucket" || name == "dead_letter" {
				ids, of, body = []string{of}, "", " "+ids[0]
			}
			for _, id := range ids {
				place := strings.TrimSuffix(name+" "+of, " ")
				if group, isGroup := strings.CutPrefix(id, "{t:"); isGroup {
					if name == "job_bucket" {
						place += body
					}
					id, _, _ = strings.Cut(group, "}")
				}
				all[occurrenceForm.ReplaceAllString(id, "@…")] = append(all[occurrenceForm.ReplaceAllString(id, "@…")], place)
			}
		}
	}
	for id, places := range all {
		slices.Sort(places)
		if slices.Contains(places, "job_pool") { // a consumer that finds the other entry drops it
			all[id] = slices.DeleteFunc(places, func(p string) bool { return strings.HasPrefix(p, "ready_queue") })
		}
	}
	return all
}
