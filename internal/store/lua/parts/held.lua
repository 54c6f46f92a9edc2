-- Those whom the limit of a topic holds back: clients that wait until one of its slots is free.

-- Wakes the one that has waited longest; if nobody is held back, one who waits for jobs: while the limit was reached they woke nobody.
-- If there are no jobs, all of them wait for some. Returns whether one was woken, nil if nobody is there.
-- include: keys: waiters held_back
local function let_go_on(topic)
  if redis.pcall('EXISTS', held_back .. topic, waiters .. topic) == 0 then return nil end
  -- include: go_on: wake_next
  return wake_next(topic)
end
