-- Shared.

-- Tells consumers that a topic's ready queue has jobs, so many. A channel that may not be
-- written to is no reason to fail: consumers look by themselves, too.
local function tell_ready(channel, length)
  redis.pcall('PUBLISH', channel, string.format('%d', length))
end
