-- layout: tells how many partitions the jobs are divided into, and how many they were divided into before, and keeps
-- other numbers if these may follow. Partition 0 decides; the other partitions of a cluster have copies, for when its node is away.
--
-- KEYS[1] the hash of that, in the partition
-- ARGV[1] 'ask': nothing changes
--         'enter': the caller's layout becomes the present one, if there is none, or if it comes right after that
--         'done': nothing is left of the layout before
--         'copy': what another partition has kept is kept here as well, unless this is newer
-- ARGV[2] how many partitions there are by the caller   ARGV[3] how many there were before, 0 if none are left of those
-- ARGV[4] the version of that   ARGV[5] the most partitions there ever were, both for 'copy' only
--
-- Returns {partitions, before, version, most} as they are kept now, 0 for what is not known. The version grows with each change
-- in partition 0.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- Atomic so that of two who come first with different numbers one is refused, and so that an old copy never replaces a newer one.
-- Cost: O(1).
local kept = redis.call('HMGET', KEYS[1], 'partitions', 'before', 'version', 'most')
local partitions, before, version, most = kept[1] or '0', kept[2] or '0', tonumber(kept[3] or 0), tonumber(kept[4] or 0)
local function keep(new_partitions, new_before, new_version)
  most = math.max(most, partitions, before, new_partitions, new_before, tonumber(ARGV[5]))
  redis.call('HSET', KEYS[1], 'partitions', new_partitions, 'version', new_version, 'most', most)
  if new_before == '0' then redis.call('HDEL', KEYS[1], 'before') else redis.call('HSET', KEYS[1], 'before', new_before) end
  partitions, before, version = new_partitions, new_before, new_version
end
local is_first, follows = partitions == '0', before == '0' and ARGV[3] == partitions
local is_other = partitions ~= ARGV[2] or before ~= ARGV[3]
if ARGV[1] == 'enter' and is_other and (is_first or follows) then
  keep(ARGV[2], ARGV[3], version + 1)
elseif ARGV[1] == 'done' and not is_other and before ~= '0' then
  keep(partitions, '0', version + 1)
elseif ARGV[1] == 'copy' and (tonumber(ARGV[4]) > version or tonumber(ARGV[4]) == version and is_other) then
  keep(ARGV[2], ARGV[3], tonumber(ARGV[4]))
end
return {partitions, before, version, most}
