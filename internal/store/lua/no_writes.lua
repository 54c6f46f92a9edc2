-- Shared.

-- An error reply if this server takes no writes, else nil: that a queue is empty there does
-- not mean that it is empty.
local function takes_no_writes(queue)
  local reply = redis.pcall('RPOP', queue, 0) -- takes nothing
  if type(reply) ~= 'table' or not reply.err then return nil end
  for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
    if string.find(reply.err, reason, 1, true) then return reply end
  end
end
