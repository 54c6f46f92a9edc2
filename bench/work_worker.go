package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// acknowledging are the contenders that acknowledge, ours first.
func acknowledging() []maker {
	return append([]maker{{ofWorker, true, func(r *Run) Peer { return &delayerWorker{newDelayer(r.Redis, 0), nil} }}}, others()...)
}

const ofWorker = "Delayer, worker"

func benchWorker(ctx context.Context, r *Run) Section {
	var bursts, steady []contender
	for _, m := range acknowledging() {
		bursts = append(bursts, contender{name: m.name, run: func() []float64 { return r.burstOnce(ctx, m, r.burst) }})
		if m.ours || r.steadyPeers {
			steady = append(steady, r.steady(ctx, m.name, r.traffic(500), m.open))
		}
	}
	burst, even, backlog := r.turns(r.slowRepeats, bursts), r.turns(r.slowRepeats, steady), r.turns(r.pairRepeats, r.reserveBatches(ctx))
	late := even.of(ofWorker)
	return Section{
		Title: "Worker",
		Tables: []Table{
			{
				ID: "worker", Title: count(r.burst) + " jobs due at once, handled and acknowledged", Unit: "jobs/s, unless said otherwise",
				Columns: burstColumns, Rows: burst,
			},
			{ID: "worker-steady", Title: "Lateness into the handler at 500 jobs per second", Columns: steadyColumns[:5], Rows: even},
			{ID: "worker-batch", Title: "Reserve and acknowledge a backlog, 250 jobs per call", Unit: "jobs/s", Columns: batchColumns, Rows: backlog},
		},
		Targets: []Target{
			atLeast("Worker, jobs/s against asynq", 6, burst.ratio(0, ofWorker, "asynq")),
			atLeast("Worker, jobs/s against beanstalkd", 2, burst.ratio(0, ofWorker, "beanstalkd")),
			atMost("Worker, Redis's CPU time per job against asynq", 0.25, "×", burst.ratio(3, ofWorker, "asynq")),
			atMost("Worker, lateness p99 into the handler at 500/s", 5, " ms", late.column(1)),
			atLeast("Fetch and AckBatch against the raw scripts", 0.8, backlog.ratio(0, "Delayer, Fetch and AckBatch", floorReserve)),
			neverEarly("into the handler", late),
		},
	}
}

const floorReserve = "floor: raw scripts, 250 jobs at a time"

// floorReserveBatch leases ARGV[2] jobs: KEYS ready queue, pool; ARGV bucket prefix, jobs, end of the leases.
var floorReserveBatch = redis.NewScript(2, `
local ids = redis.call('RPOP', KEYS[1], ARGV[2])
if not ids then return {} end
local reply, entries = {}, {}
for i, id in ipairs(ids) do
  local bucket = ARGV[1] .. id
  local job = redis.call('HMGET', bucket, 'topic', 'body')
  redis.call('HINCRBY', bucket, 'attempts', 1)
  entries[2 * i - 1], entries[2 * i] = ARGV[3], id
  reply[#reply + 1] = id
  reply[#reply + 1] = job[2]
end
redis.call('ZADD', KEYS[2], unpack(entries))
return reply`)

// floorAckBatch ends jobs whose leases match: KEYS pool; ARGV bucket prefix, end of the leases, IDs.
var floorAckBatch = redis.NewScript(1, `
local ids, names = {}, {}
local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 3))
for i = 1, #scores do
  if scores[i] and scores[i] - ARGV[2] == 0 then
    ids[#ids + 1], names[#names + 1] = ARGV[i + 2], ARGV[1] .. ARGV[i + 2]
  end
end
redis.call('ZREM', KEYS[1], unpack(ids))
redis.call('DEL', unpack(names))
return #ids`)

// reserveBatches work off a backlog, scriptChunk jobs per call.
func (r *Run) reserveBatches(ctx context.Context) []contender {
	return []contender{
		r.batched(floorReserve, true, func(conn redis.Conn, _ *client.Client, _ int) (int, error) {
			end := fmt.Sprintf("%.6f", float64(time.Now().Add(30*time.Second).UnixMicro())/1e6)
			reply, err := redis.Values(floorReserveBatch.Do(conn, readyPrefix+topic, poolKey, bucketPrefix, scriptChunk, end))
			if err != nil {
				return 0, err
			}
			args := []any{poolKey, bucketPrefix, end}
			for i := 0; i < len(reply); i += 2 {
				args = append(args, reply[i])
			}
			return redis.Int(floorAckBatch.Do(conn, args...))
		}),
		r.batched("Delayer, Fetch and AckBatch", true, func(_ redis.Conn, c *client.Client, _ int) (int, error) {
			list, err := c.Fetch(ctx, reserved(topic, scriptChunk, 0))
			if err != nil {
				return 0, err
			}
			_, err = c.AckBatch(ctx, list)
			return len(list), err
		}),
	}
}
