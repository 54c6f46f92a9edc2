-- Shared, behind clock, lease and unreadable.
local now_s = time[1] + time[2] / 1000000

-- The job whose lease is held: the fields lease, topic and those named of its bucket. nil if the
-- entry of the pool with that score, false if there is none, is not the lease of a job of that
-- topic with that token, or has ended. Then, if that can't be read, the error reply.
--
-- The token tells a lease, not its end: leases are whole milliseconds long, and so two of one job
-- towards one deadline may end in the same microsecond. No two leases of an ID have the same
-- token, for it is Redis's clock at the reserve, and above the one before. Nor need a holder know
-- the end, which he doesn't when the answer to an extension was lost. The topic must be right, too:
-- it decides where the job goes. Whatever else became of the job, its entry is no lease any more.
local function held(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%d+ (%d+)') == token then return job end
end
