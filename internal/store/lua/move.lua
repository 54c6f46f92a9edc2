-- move: takes due jobs of one topic out of the pool and puts them into its ready queue.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] when the jobs were found to be due (Unix seconds)
-- ARGV[3] how long ago that was, in µs (to ask for the time here would cost more than all that is
-- counted)   ARGV[4] from when on they are to be tried again if the queue can't take them (Unix ms)
-- ARGV[5…] job IDs in due order
--
-- Returns {took, put back, why, late, n, …, left, left, …}: took is the script's own time in µs (0
-- for a few jobs, and where Redis has no clock that runs inside a script); put back is how many jobs
-- the queue could not take, which are in the pool again, due later; why is Redis's reason for that,
-- or, if it is 0, for not having woken a waiter, 'woken' if one was, '' if none waits; late is by how much the
-- jobs that are ready are late, in µs, all together; n is how many numbers follow that say more:
-- how many of these jobs were leases, and, unless all are of one bucket of LatenessBounds, for each
-- bucket that has some, 32 * jobs + its place, from 1 on; left are the 1-based places of the IDs
-- that were not moved because they are no longer in the pool (removed, moved by another server,
-- named twice) or were scheduled anew since they were found.
-- Errors: WRONGTYPE of the pool, a permission that is missing, a server that takes no writes,
-- before anything is written.
--
-- The queue is no key of the call: a user who may not use it gets its jobs put back, too.
-- What is due may be a lease that has ended: that job is not reserved any more.
-- Atomic because a job must be in the pool or in the queue, never in both or in neither.
-- Cost: O(k log n) for k IDs in a pool of n.
-- include: guard: not_writable; move: move
local err = not_writable()
if err then return err end
return move(ARGV)
