-- The time of all decisions of this call, in microseconds since the epoch. It is read once, because
-- TIME advances while a script runs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Milliseconds by which the expiry of a key is extended. The server computes the expiry from the
-- time when the call began, which may be slightly before `now`.
local EXPIRY_MARGIN = 50
