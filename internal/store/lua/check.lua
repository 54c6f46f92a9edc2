-- check: looks at the lengths of ready queues, and registers a waiter at those that are empty.
--
-- KEYS[1] job pool   KEYS[2…] ready queues
-- ARGV[1] the waiter, '' for none   ARGV[2…] of each queue: its topic, and how long the waiter has waited (µs), -1 not to register it
-- Returns {registered, added, length, length, …}: 1 if the waiter is registered wherever it should be, else 0; the positions of the queues,
-- from 1 on, at which it was not registered before; and the lengths, none if no queue exists, which is the rule. The length of a queue that
-- can't be read is 1: a pop then reports why.
-- Errors: READONLY, since a replica does not know that a queue is empty.
-- Atomic because a job between the check and the registration would wake no client.
-- Cost: O(queues).
-- include: guard queue
local reply, written = {1, {}}, false
local some = redis.pcall('EXISTS', unpack(KEYS, 2)) ~= 0
local waiter = ARGV[1]
for i = 2, #KEYS do
  local length = some and redis.pcall('LLEN', KEYS[i]) or 0
  if type(length) ~= 'number' then length = 1 end
  local topic, waited = ARGV[2 * i - 2], ARGV[2 * i - 1]
  if length == 0 and waiter ~= '' and waited ~= '-1' then
    local registered, added = add_waiter(topic, waiter, waited)
    if registered then written = true else reply[1] = 0 end
    if added then reply[2][#reply[2] + 1] = i - 1 end
  end
  if some then reply[i + 1] = length end
end
-- Last, as this check counts as a write, after which nothing is refused at maxmemory.
return not written and takes_no_writes(KEYS[2]) or reply
