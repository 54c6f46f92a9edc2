-- register_dead: registers topics that have dead letters but are not known, as earlier migrations left them.
--
-- KEYS[1] the topics that have dead letters
-- ARGV[1] how many topics at most   ARGV[2…3] the position of the last topic, its score and name; '' to begin
-- Returns {score, name}: ARGV[2…3] of the next call; '' at the end.
-- Errors: WRONGTYPE of the topics, NOPERM. A user who can't write the known topics gets no error.
-- Atomic so that a topic is registered by what it has now. Cost: O(log² n + topics).
-- include: place time topics
local most = tonumber(ARGV[1])
local first = page_after(dead_topics, ARGV[2], ARGV[3])
local page = redis.call('ZRANGE', dead_topics, first, first + most - 1, 'WITHSCORES')
if #page == 0 then return {'', ''} end
local entries = {}
for i = 1, #page, 2 do entries[i], entries[i + 1] = used_at(now_s), page[i] end
redis.pcall('ZADD', known_topics, 'NX', unpack(entries))
if #page < 2 * most then return {'', ''} end
return {page[#page], page[#page - 1]}
