-- Shared.

-- An error reply if key is neither absent nor a list, else nil. Asked before
-- the first write, because a script that fails half-way keeps what it wrote.
local function not_a_list(key)
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= 'list' then
    return redis.error_reply('WRONGTYPE ready queue ' .. key .. ' is a ' .. type .. ', not a list')
  end
end
