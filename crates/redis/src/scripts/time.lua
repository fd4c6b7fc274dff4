-- The moment of every decision in this call, in microseconds since the epoch, read once: TIME moves on inside a script.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- How long a key outlives what it says, in milliseconds: the server counts from when the call began, which may have been
-- a little before it was asked for the time.
local AFTERLIFE = 50
