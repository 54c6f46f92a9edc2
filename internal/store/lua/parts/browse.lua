-- Reads jobs page by page.
--
-- ARGV[1] the topic, '' for any   ARGV[2] how many jobs at most   ARGV[3] how many entries to read at most; fewer if many are told
-- ARGV[4] how many bytes of a body to tell at most; 0: nothing of it; 'all' of body, error and reason
-- ARGV[5…6] the position of the last entry that was read before, '' for none
-- include: guard: unreadable; lease: read_lease read_options

local topic, whole = ARGV[1], ARGV[4] == 'all'
local jobs_left, entries_left, preview = tonumber(ARGV[2]), tonumber(ARGV[3]), whole and 2147483647 or tonumber(ARGV[4])
local bytes_left = 512 * 1024
local MAX_BODY, MAX_TEXT = whole and preview or 1024 * 1024, whole and preview or 1024
local A_JOB = preview > 0 and 3 or 0 -- what to tell of a job costs, in entries
local FIRST_PAGE, LAST_PAGE = 16, 128 -- entries read at a time, whose IDs may be large

local function job_of(name)
  return redis.pcall('HMGET', name, 'topic', 'lease', 'error', 'reason', 'options')
end

-- The beginning of the body, and how many bytes it has, -1 if that is not known. Redis can't read a part of a field: a body above
-- MAX_BODY is not read.
local function body_of(name)
  local size = preview > 0 and redis.pcall('HSTRLEN', name, 'body')
  if type(size) ~= 'number' then return '', -1 end
  if size == 0 or size > MAX_BODY then return '', size end
  bytes_left = bytes_left - size
  local body = redis.pcall('HGET', name, 'body')
  return type(body) == 'string' and string.sub(body, 1, preview) or '', size
end

-- Reads entries, and returns the script's reply, or an error reply.
--   read(skip, count)   returns the next entries but for the first skip ones, count at most: IDs, and scores or positions
--   names               begins the names of the jobs' hashes
--   find(name, at, id)  returns the job, as job_of does, if it is in the state that is meant
-- The reply is {read, last, entry, entry, …}: how many entries were read; {at, id} of the last one, {} if there are no more; and entries
-- {id, at, topic, body, size, attempts, error, reason, attempts in all, ttr}, with MAX_TEXT bytes of error and reason at most. The last
-- two are the producer's (ms), 0 for none.
local function browse(read, names, find)
  local reply, looked, page, ended = {0, {}}, 0, FIRST_PAGE, false
  while jobs_left > 0 and entries_left > 0 and bytes_left > 0 and not ended do
    local ids, places = read(looked, math.min(page, entries_left))
    ended, page = #ids == 0, math.min(2 * page, LAST_PAGE)
    for i, id in ipairs(ids) do
      local at, name = places[i], names .. id
      local job = find(name, at, id)
      if job and unreadable(job) then return job end
      if job and job[1] and (topic == '' or job[1] == topic) then
        local body, size = body_of(name)
        local most, ttr = read_options(job[5])
        reply[#reply + 1] = {id, at, job[1], body, size, (read_lease(job[2])),
          string.sub(job[3] or '', 1, MAX_TEXT), string.sub(job[4] or '', 1, MAX_TEXT), most, ttr}
        jobs_left, entries_left = jobs_left - 1, entries_left - A_JOB
      end
      looked, entries_left, bytes_left = looked + 1, entries_left - 1, bytes_left - #id
      reply[2] = {at, id}
      if jobs_left == 0 or entries_left <= 0 or bytes_left <= 0 then break end
    end
  end
  reply[1] = looked
  if ended then reply[2] = {} end
  return reply
end
