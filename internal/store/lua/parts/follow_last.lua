-- With the overlap 'follow' no two jobs of a schedule run at a time, and one begins after each occurrence. An occurrence whose last job is
-- reserved has a follower of that job, under its ID; the latest one counts. If the last job is not reserved yet, it stands for the
-- occurrence, too, where it is: a push would move it to the end of its queue each time.
-- include: follow: store_follower; guard: not_permitted unreadable; lease: read_lease pushed_again has_follower mark_follower read_options

-- The text of the last job's lease, nil if it is not reserved, or done. An error reply if it can't have a follower.
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_again(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end

-- Makes an occurrence's job follow the last one, whose lease has that text. Returns the text then, and whether it is the first follower.
local function follow_last(last, lease, topic, content, options, due)
  local most, ttr, lifetime = read_options(options)
  store_follower(buckets .. last, lease, topic, content, due, lifetime, most, ttr)
  return mark_follower(lease), not has_follower(lease)
end
