-- drop: takes orphans out of the pool: due IDs whose bucket is gone (expired), has no topic or is no hash.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with   ARGV[2…] job IDs
--
-- Returns the IDs that were taken out; an ID that has been given a usable bucket
-- meanwhile, or has left the pool, is passed over.
-- Errors: a permission that is missing: whether there is a bucket is unknown then.
--
-- Atomic because the ID may be pushed anew between the check and the removal.
-- Cost: O(k log n) for k IDs in a pool of n.
local dropped = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local topic = redis.pcall('HGET', ARGV[1] .. id, 'topic')
  if refused(topic) then return topic end
  if type(topic) ~= 'string' and redis.call('ZREM', KEYS[1], id) == 1 then
    dropped[#dropped + 1] = id
  end
end
return dropped
