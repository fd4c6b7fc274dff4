-- Puts, removes or reads shared records: small texts with an id and an expiry, in one hash for each
-- group. The field '' of the hash has the revision of the group; it is replaced by every change.
-- A record is the time at which it expires (a double) and its text.
--
-- KEYS:  the hash of a group, and a sorted set of its ids by the time at which they expire. Either
--        both of them exist or none.
-- ARGV:  ARGV[1] begins with the operation (a byte): 1 put, 2 remove, 3 read. After it are
--          put         the new revision (16 bytes), how long the record is kept (microseconds), the
--                      most records of the group (doubles), the lengths of the id (2 bytes) and of
--                      the expected text (4 bytes: ANY_TEXT for any record or none, 0 for no
--                      record), the id, the expected text, and the text
--          remove      the new revision (16 bytes), and the id
--          read        the known revision (16 bytes), the most bytes of a page (a double), and the
--                      cursor of the page, 0 for the first one
-- Reply: one string: the time, and
--          status      1 done, 0 not found, unchanged or another text than expected, 3 the group is
--                      full; only 1 may have changed anything
--          for a read that is done, the revision (16 bytes), the length of the cursor of the next
--          page (2 bytes), the cursor, which is 0 if this is the last page, and for each record how
--          long it is kept from now on (a double), the lengths of its id (2 bytes) and of its text
--          (4 bytes), the id and the text
--
-- A record that exists during all pages of a read is read once or more; one that is put or removed
-- meanwhile may be missing. A group that does not exist has the revision NO_RECORDS. So has one
-- whose keys another program has replaced; the next change deletes them.

-- include time.lua

local PUT, REMOVE = 1, 2
local DONE, NOT_FOUND, FULL = 1, 0, 3
local NO_RECORDS = string.rep('\255', 16)
local ANY_TEXT = 4294967295
-- The most expired records that a call drops; how many are read by one command, and the most
-- commands of a page.
local DROP_MAX, SCAN_COUNT, SCANS_MAX = 256, 8, 256
-- No record expires later: this and larger numbers, infinity and not-a-number are no times.
local TIME_MAX = 9007199254740992

local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub
local hash, expiries, arguments = KEYS[1], KEYS[2], ARGV[1]
local operation, revision, rest = read('<Bc16', arguments)
-- As text, because Lua would write a time with 14 digits only.
local now_text = string.format('%.0f', now)

local function reply(status, body)
  return pack('<dB', now, status) .. (body or '')
end

-- Whether a key of the group has another type, so that commands on it fail.
local function is_damaged()
  local replies = { redis.pcall('HGET', hash, ''), redis.pcall('ZSCORE', expiries, '') }
  for index = 1, 2 do
    local failed = type(replies[index]) == 'table' and replies[index].err
    if failed and sub(failed, 1, 9) == 'WRONGTYPE' then
      return true
    end
  end
  return false
end

-- When a record expires; 0 if it is not a record.
local function expiry(value)
  local time = value and #value >= 8 and read('<d', value) or 0
  return time < TIME_MAX and time or 0
end

local function valid_records()
  return call('ZCOUNT', expiries, '(' .. now_text, '+inf')
end

-- Drops expired records, the first to expire first. The others are not read and count for nothing.
local function drop_expired()
  local ids = call('ZRANGEBYSCORE', expiries, '-inf', now_text, 'LIMIT', 0, DROP_MAX)
  if #ids > 0 then
    call('HDEL', hash, unpack(ids))
    call('ZREM', expiries, unpack(ids))
  end
end

-- Lets both keys expire not before the record.
local function extend_expiry(ttl)
  local millis = math.ceil(ttl / 1000) + EXPIRY_MARGIN
  if call('PTTL', hash) < millis then
    call('PEXPIRE', hash, millis)
    call('PEXPIRE', expiries, millis)
  end
end

local damaged = is_damaged()
if damaged and (operation == PUT or operation == REMOVE) then
  call('UNLINK', hash, expiries)
end

if operation == PUT then
  local ttl, records_max, length, expected_length, first = read('<ddHI', arguments, rest)
  local id = sub(arguments, first, first + length - 1)
  first = first + length

  if expected_length ~= ANY_TEXT then
    local expected = sub(arguments, first, first + expected_length - 1)
    first = first + expected_length
    local value = call('HGET', hash, id)
    local current = expiry(value) > now and sub(value, 9) or ''
    -- The reply to the same call may have been lost.
    if current == sub(arguments, first) then
      return reply(DONE)
    elseif current ~= expected then
      return reply(NOT_FOUND)
    end
  end
  local text = sub(arguments, first)

  -- A server that evicts keys may have evicted one of the two.
  if not call('HGET', hash, '') then
    call('UNLINK', expiries)
  end
  local expires_at = tonumber(call('ZSCORE', expiries, id) or 0)
  if expires_at <= now and valid_records() >= records_max then
    return reply(FULL)
  end

  -- The keys exist from here on: the new record has not expired.
  call('HSET', hash, '', revision, id, pack('<d', now + ttl) .. text)
  call('ZADD', expiries, string.format('%.0f', now + ttl), id)
  drop_expired()
  extend_expiry(ttl)
  return reply(DONE)
end

if operation == REMOVE then
  local id = sub(arguments, rest)
  if expiry(call('HGET', hash, id)) <= now then
    return reply(NOT_FOUND)
  end

  if valid_records() <= 1 then
    call('UNLINK', hash, expiries)
  else
    call('HDEL', hash, id)
    call('ZREM', expiries, id)
    call('HSET', hash, '', revision)
    drop_expired()
  end
  return reply(DONE)
end

local bytes_max, first = read('<d', arguments, rest)
local cursor = sub(arguments, first)
local current = not damaged and call('HGET', hash, '') or NO_RECORDS
if #current ~= 16 then
  current = NO_RECORDS
end
if current == revision and cursor == '0' then
  return reply(NOT_FOUND)
elseif damaged then
  return reply(DONE, current .. pack('<H', 1) .. '0')
end

-- Expired records count as well: they are work, too.
local parts, bytes, scans = {}, 0, 0
repeat
  local page = call('HSCAN', hash, cursor, 'COUNT', SCAN_COUNT)
  cursor, scans = page[1], scans + 1
  for index = 1, #page[2], 2 do
    local id, value = page[2][index], page[2][index + 1]
    local expires_at = id ~= '' and expiry(value) or 0
    if expires_at > now then
      local head = pack('<dHI', expires_at - now, #id, #value - 8)
      parts[#parts + 1] = head .. id .. sub(value, 9)
    end
    bytes = bytes + #value
  end
until cursor == '0' or bytes >= bytes_max or scans >= SCANS_MAX

return reply(DONE, current .. pack('<H', #cursor) .. cursor .. table.concat(parts))
