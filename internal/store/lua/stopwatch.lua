-- stopwatch() starts one; calling what it returns gives the µs since. Redis
-- from 7.4 on has os.clock; before that, TIME runs on inside a script.
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
