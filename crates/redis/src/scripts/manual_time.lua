-- The time of all decisions of this call, taken from the last argument. For tests only: otherwise
-- clients could choose the time by which they are limited.
local now = tonumber(table.remove(ARGV))
-- Tests stop the time between calls while the server's own clock advances, so keys must not expire.
local EXPIRY_MARGIN = 3600000
