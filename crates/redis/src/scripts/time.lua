-- The moment of every decision in this call, in microseconds since the epoch, read once: TIME moves on inside a script.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- How long a key outlives what it says, in milliseconds.
local AFTERLIFE = 1
