-- With the overlap 'follow' a moment whose last job is not done has no job of its own: no two run at a time, and after each moment one
-- begins. If somebody has begun the last job, the moment's follows it, under its ID (see follow); the newest one counts. If nobody has, that one
-- stands for the moment, too, where it is: to replace it, as a push does, would put it to the end of its queue again and again.

-- The text of the last job's lease, nil if nobody has begun it, or it is done. An error reply if it can't be followed.
-- include: keys: buckets; guard: not_permitted unreadable; lease: read_lease pushed_anew
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_anew(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end

-- Has a moment's job follow the last one, whose lease has that text. Returns the text then, and whether nobody's has followed it before.
-- include: keys: buckets; follow: enter_follower; lease: has_follower mark_follower read_options
local function follow_last(last, lease, topic, content, options, due)
  local most, ttr, lifetime = read_options(options)
  enter_follower(buckets .. last, lease, topic, content, due, lifetime, most, ttr)
  return mark_follower(lease), not has_follower(lease)
end
