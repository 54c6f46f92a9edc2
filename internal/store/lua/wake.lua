-- wake: wakes the next waiters of some topics, when the client that was woken has no use for their jobs.
--
-- KEYS[1] job pool   ARGV the topics
-- Returns nothing. Errors: none.
-- Atomic because the topic must have jobs when its waiter is removed and woken. Cost: O(topics).
-- include: queue throttle
for _, topic in ipairs(ARGV) do
  local length = redis.pcall('LLEN', queues .. topic)
  if type(length) == 'number' and length > 0 and not wake(topic, length) then wake_throttled(topic) end
end
