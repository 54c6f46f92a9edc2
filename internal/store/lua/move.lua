-- move: moves due jobs of one topic from the pool to its ready queue.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] when the jobs were found to be due (Unix s)   ARGV[3] how long ago that was (µs; it costs less than TIME)
-- ARGV[4] when to retry them if the queue can't take them (Unix ms)
-- ARGV[5…] IDs in due order
-- Returns {took, returned, why, late, n, …, left, …}: the script's own time (µs; 0 for few jobs, and where Redis has no clock that advances
-- inside a script); how many jobs the queue could not take, which are in the pool again and due later; Redis's reason, or, if it took all,
-- why no waiter could be woken, 'woken' if one was, '' if none waits; the total lateness of the jobs (µs); how many numbers follow: how many
-- jobs were leases and, unless all jobs are of one bucket of LatenessBounds, 32 · jobs + bucket, from 1 on, for each bucket; and the 1-based
-- positions of the IDs that it did not move because they have left the pool, were rescheduled, or are listed twice.
-- Errors: WRONGTYPE of the pool, NOPERM, READONLY. Nothing has changed then.
--
-- The queue is no key of the call, so that its jobs are put back if this user may not use it. A due entry may be a lease that has ended: that
-- job is not reserved any more.
-- Atomic because a job must be in the pool or in the queue, never in both or neither.
-- Cost: O(log n) of the pool for each job.
-- include: guard move
local err = not_writable()
if err then return err end
return move(ARGV)
