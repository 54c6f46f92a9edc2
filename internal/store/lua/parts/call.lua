-- What all scopes of one call share. A script or a part that includes its users in a loop includes it outside of the loop.

local MOST_DEAD, DEAD_COST = 100, 10 -- waiters that one call finds dead

-- What the call may still spend on waking clients: a dead waiter costs DEAD_COST, a job of a paused topic that it parks costs 1.
local waking_left = MOST_DEAD * DEAD_COST
