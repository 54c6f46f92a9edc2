-- layout: reads how many partitions there are and were, and changes that if the change is allowed. Partition 0 decides; the others have
-- copies for when its node is away.
--
-- KEYS[1] the partition's layout
-- ARGV[1] 'ask': change nothing. 'register': the caller's layout becomes the present one if there is none, or if it directly follows it. 'done':
--   nothing is left of the previous layout. 'copy': copy another partition's layout, unless this one is newer
-- ARGV[2] the caller's number of partitions   ARGV[3] the previous number, 0 for none   ARGV[4…5] for 'copy', the version, and the most
--   partitions there ever were
-- Returns {partitions, previous, version, most} as they are now; 0 for unknown. Each change in partition 0 has a new version.
-- Errors: WRONGTYPE, NOPERM. Nothing has changed then.
-- Atomic so that of two first callers with different numbers one is refused, and an old copy replaces no newer one. Cost: O(1).
-- include: guard
local kept = redis.call('HMGET', KEYS[1], 'partitions', 'before', 'version', 'most')
local partitions, before, version, most = kept[1] or '0', kept[2] or '0', tonumber(kept[3] or 0), tonumber(kept[4] or 0)
local refused
local function keep(new_partitions, new_before, new_version)
  refused = not_permitted('HDEL', KEYS[1], 'before')
  if refused then return end
  most = math.max(most, partitions, before, new_partitions, new_before, tonumber(ARGV[5]))
  redis.call('HSET', KEYS[1], 'partitions', new_partitions, 'version', new_version, 'most', most)
  if new_before == '0' then redis.call('HDEL', KEYS[1], 'before') else redis.call('HSET', KEYS[1], 'before', new_before) end
  partitions, before, version = new_partitions, new_before, new_version
end
local is_first, follows = partitions == '0', before == '0' and ARGV[3] == partitions
local is_other = partitions ~= ARGV[2] or before ~= ARGV[3]
if ARGV[1] == REGISTER_LAYOUT and is_other and (is_first or follows) then
  keep(ARGV[2], ARGV[3], version + 1)
elseif ARGV[1] == END_PREVIOUS and not is_other and before ~= '0' then
  keep(partitions, '0', version + 1)
elseif ARGV[1] == COPY_LAYOUT and (tonumber(ARGV[4]) > version or tonumber(ARGV[4]) == version and is_other) then
  keep(ARGV[2], ARGV[3], tonumber(ARGV[4]))
end
return refused or {partitions, before, version, most}
