-- fsck_queue: reads a page of a topic's ready queue, or of its parked jobs.
local function stopwatch()
  local os = rawget(_G, 'os')
  if os then
    local start = os.clock()
    return function() return math.floor((os.clock() - start) * 1000000) end
  end
  local start = redis.call('TIME')
  return function()
    local stop = redis.call('TIME')
    return (stop[1] - start[1]) * 1000000 + stop[2] - start[2]
  end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local parked_queues = prefix .. 'paused_queue:'
local queues = prefix .. 'ready_queue:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local buckets = prefix .. 'job_bucket:'
local watch = stopwatch()
local topic, count = ARGV[1], tonumber(ARGV[5])
local queue = (ARGV[2] == 'parked' and parked_queues or queues) .. topic
local length = redis.pcall('LLEN', queue)
if unreadable(length) then return length end
if type(length) ~= 'number' or length == 0 then return {watch(), 0, '', 0, {}} end

local left = ARGV[3] == '' and length or tonumber(ARGV[3])
local last = math.max(left - count + 1, 1) -- of the page, from the right end
local page = redis.call('LRANGE', queue, -left - 1, -last)
local first = 1
for i, id in ipairs(page) do
  if id == ARGV[4] then
    first = i + 1
    break
  end
end
local ids = {}
for i = first, #page do
  local owner = redis.pcall('HGET', buckets .. page[i], 'topic')
  if unreadable(owner) then return owner end
  if type(owner) == 'string' then ids[#ids + 1] = page[i] end
end
return {watch(), last - 1, page[#page] or ARGV[4], math.max(#page - first + 1, 0), ids}
