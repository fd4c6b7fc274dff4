-- The moment of every decision as the caller says, in the last argument. For tests only: a rate limiter whose callers
-- tell it the time is theirs to fool.
local now = tonumber(table.remove(ARGV))
-- Time stands still between the calls of a test while the server's own goes on, so keys must not depend on it.
local AFTERLIFE = 3600000
