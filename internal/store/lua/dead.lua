-- require: keys guard lease
-- dead: reads a page of a topic's dead letters, the newest first; it changes nothing.
--
-- KEYS[1] the zset of the topics that have any   KEYS[2] the topic's dead letters
-- ARGV[1] how many at most
-- ARGV[2] the ID of the last one of the page before, '' for the first page   ARGV[3] and its time
--
-- Returns of each {ID, time, topic, body, attempts, reason, error, attempts in all, ttr}: time is when it
-- was buried (Unix ms); the last two are as its producer says (ms), 0 if he doesn't; the topic is '' if its bucket is gone, or no hash. A page ends early when it comes
-- to MAX_BYTES. If the last one of the page before is gone, those that died at the same time
-- may come again.
-- Errors: WRONGTYPE of the list, a permission that is missing.
--
-- Atomic so that entries and content belong together.
-- Cost: O(log n + page).
local MAX_BYTES = 1024 * 1024
local list, count = KEYS[2], tonumber(ARGV[1])
local entries
local died = ARGV[2] ~= '' and redis.call('ZSCORE', list, ARGV[2])
if ARGV[2] == '' or died and died - ARGV[3] == 0 then
  local first = died and redis.call('ZREVRANK', list, ARGV[2]) + 1 or 0
  entries = redis.call('ZREVRANGE', list, first, first + count - 1, 'WITHSCORES')
else -- the last one is gone, or has died anew: go on by its time
  entries = redis.call('ZREVRANGEBYSCORE', list, ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, count)
end
local reply, bytes = {}, 0
for i = 1, #entries, 2 do
  if bytes >= MAX_BYTES then break end
  local letter = redis.pcall('HMGET', dead_letters .. entries[i], 'topic', 'body', 'lease', 'reason', 'error', 'options')
  if unreadable(letter) then return letter end
  if letter[2] then bytes = bytes + #letter[2] end
  local most, ttr = read_options(letter[6])
  reply[#reply + 1] = {entries[i], entries[i + 1], letter[1] or '', letter[2] or '', (read_lease(letter[3])), letter[4] or '', letter[5] or '', most, ttr}
end
return reply
