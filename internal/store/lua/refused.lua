-- Shared.

-- Whether a pcall's reply is an error that says nothing about the key, such as
-- a permission that is missing. WRONGTYPE does: there is no usable key then.
local function refused(reply)
  return type(reply) == 'table' and reply.err and string.sub(reply.err, 1, 9) ~= 'WRONGTYPE'
end
