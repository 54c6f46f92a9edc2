package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// workerPeers are the contenders that acknowledge, ours first.
func (r *Run) workerPeers() []maker {
	list := []maker{{"Delayer, worker", true, false, func(r *Run) (Peer, error) { return newDelayerWorker(r), nil }}}
	for _, m := range r.others() {
		if !m.slow {
			list = append(list, m)
		}
	}
	return list
}

func benchWorker(ctx context.Context, r *Run) (Section, error) {
	section := Section{Title: "Worker"}
	pace := map[string]time.Duration{}
	var contenders, steady []contender
	for _, m := range r.workerPeers() {
		contenders = append(contenders, contender{name: m.name, run: func() ([]float64, error) { return r.workerBurst(ctx, m, pace) }})
		if m.ours || r.steadyPeers {
			steady = append(steady, r.steady(ctx, m.name, r.traffic(500), r.opener(m)))
		}
	}
	burst := r.turns(r.slowRepeats, contenders)
	even := r.turns(r.slowRepeats, steady)
	backlog := r.turns(r.pairRepeats, r.reserveBatches(ctx))
	section.Tables = []Table{
		{
			ID: "worker", Title: count(r.burst) + " jobs due at once, handled and acknowledged", Unit: "jobs/s, unless said otherwise", Chart: bars, Drawn: 1,
			Columns: []Column{{Name: "jobs/s"}, {Name: "first job after, ms", Digits: 1}, {Name: "last job after, ms"}, {Name: "server, µs of CPU per job", Digits: 1}},
			Rows:    rows(contenders, burst),
		},
		{ID: "worker-steady", Title: "Lateness into the handler at 500 jobs per second", Columns: steadyColumns[:5], Rows: rows(steady, even)},
		{ID: "worker-batch", Title: "Reserve and acknowledge a backlog, 250 jobs per call", Unit: "jobs/s", Chart: bars, Columns: []Column{{Name: "one goroutine"}}, Rows: rows(r.reserveBatches(ctx), backlog)},
	}
	ours := burst["Delayer, worker"]
	section.Targets = []Target{
		{Name: "Worker, jobs/s against asynq", Limit: 6, Unit: "×", Got: ours.column(0).Over(burst["asynq"].column(0))},
		{Name: "Worker, jobs/s against beanstalkd", Limit: 2, Unit: "×", Got: ours.column(0).Over(burst["beanstalkd"].column(0))},
		{Name: "Worker, Redis's CPU time per job against asynq", AtMost: true, Limit: 0.25, Unit: "×", Got: ours.column(3).Over(burst["asynq"].column(3))},
		{Name: "Worker, lateness p99 into the handler at 500/s", AtMost: true, Limit: 5, Unit: " ms", Got: even["Delayer, worker"].column(1)},
		{Name: "ReserveBatch and AckBatch against the raw scripts", Limit: 0.8, Unit: "×", Got: backlog["Delayer, ReserveBatch and AckBatch"].column(0).Over(backlog[floorReserve].column(0))},
		neverEarly("into the handler", even["Delayer, worker"]),
	}
	return section, nil
}

// workerBurst is burstOnce plus the server's CPU time per job.
func (r *Run) workerBurst(ctx context.Context, m maker, pace map[string]time.Duration) ([]float64, error) {
	var used time.Duration
	measured := m
	measured.open = func(r *Run) (Peer, error) {
		p, err := m.open(r)
		return &meteredPeer{p, r, &used}, err
	}
	values, err := r.burstOnce(ctx, measured, r.burst, pace)
	return append(values, float64(used.Microseconds())/float64(r.burst)), err
}

// meteredPeer sums its server's CPU time from Consume to Close.
type meteredPeer struct {
	Peer
	run  *Run
	used *time.Duration
}

func (p *meteredPeer) Consume(ctx context.Context, workers int, got func(body string)) error {
	before, err := p.run.serverCPU(p.Peer)
	if err != nil {
		return err
	}
	*p.used = -before
	return p.Peer.Consume(ctx, workers, got)
}

func (p *meteredPeer) Close() error {
	after, err := p.run.serverCPU(p.Peer)
	*p.used += after
	if closed := p.Peer.Close(); err == nil {
		err = closed
	}
	return err
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
	backlog := func(chunk func() (int, error)) ([]float64, error) {
		if err := r.Redis.clear(); err != nil {
			return nil, err
		}
		if err := r.Redis.seedReady(r.batchJobs); err != nil {
			return nil, err
		}
		return one(rate(r.batchJobs, func() error {
			for left := r.batchJobs; left > 0; {
				n, err := chunk()
				if err != nil || n == 0 {
					return fmt.Errorf("%d jobs are left: %w", left, err)
				}
				left -= n
			}
			return nil
		}))
	}
	return []contender{
		{name: floorReserve, run: func() ([]float64, error) {
			conn := r.Redis.Pool.Get()
			defer conn.Close()
			return backlog(func() (int, error) {
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
			})
		}},
		{name: "Delayer, ReserveBatch and AckBatch", run: func() ([]float64, error) {
			c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
			defer c.Close()
			return backlog(func() (int, error) {
				list, err := c.ReserveBatch(ctx, topic, scriptChunk, 0)
				if err != nil {
					return 0, err
				}
				_, err = c.AckBatch(ctx, list)
				return len(list), err
			})
		}},
	}
}

func (p *meteredPeer) Hold(until time.Time) error {
	if h, ok := p.Peer.(holder); ok {
		return h.Hold(until)
	}
	return nil
}
