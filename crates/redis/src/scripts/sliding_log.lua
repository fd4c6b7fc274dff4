-- Sliding window log: a list of hits, oldest first, behind a head that holds their sum. A list without hits keeps its head
-- until it expires: a key that goes while its slot is on its way to another server could not be written again here.
--
-- Numbers: limit, cost, length: 24 bytes.
-- Counter: a list; its head is the sum, every other element a moment and a cost.
-- Told:    sum, moment at which the newest hit leaves the window, moment at which enough have left for the check to fit.
-- include commands.lua
if not log then
  log = {}

  -- The most hits one key keeps; beyond it the two oldest become one, with the later moment.
  local HITS_MAX = 8192
  -- How many elements are read or written at a time.
  local CHUNK = 128

  local function hit_of(element)
    return read('<dd', element)
  end

  -- Writes the list anew with no hit later than now, except for those within the slack.
  local function restamp(key, sum)
    local elements, hits = ask_server('LRANGE', key, 1, -1), {}
    for j = 1, #elements do
      local moment, cost = hit_of(elements[j])
      hits[j] = { moment - now > SLACK and now or moment, cost }
    end
    table.sort(hits, function(a, b) return a[1] < b[1] end)
    put('RPUSH', key, pack('<d', sum))
    for from = 1, #hits, CHUNK do
      local chunk = {}
      for j = from, math.min(from + CHUNK - 1, #hits) do
        chunk[#chunk + 1] = pack('<dd', hits[j][1], hits[j][2])
      end
      put('RPUSH', key, unpack(chunk))
    end
    put('LTRIM', key, -1 - #hits, -1)
    return hits[#hits][1]
  end

  -- Drops what has left the window; returns the sum of the rest.
  local function drop_old(key, sum, length)
    local dropped, old = 0, true
    while old do
      local elements = ask_server('LRANGE', key, dropped + 1, dropped + CHUNK)
      for j = 1, #elements do
        local moment, cost = hit_of(elements[j])
        old = moment + length <= now
        if not old then break end
        dropped, sum = dropped + 1, sum - cost
      end
      old = old and #elements == CHUNK
    end
    -- The last hit to go becomes the head.
    put('LSET', key, dropped, pack('<d', sum))
    put('LTRIM', key, dropped, -1)
    return sum
  end

  -- Leaves nothing but the head.
  local function empty(key)
    put('LSET', key, 0, pack('<d', 0))
    put('LTRIM', key, 0, 0)
  end

  -- The sum of the hits in the window and the moment of the newest; 0 and nothing when there are none.
  local function settle(key, length)
    local ends = ask_server('LRANGE', key, 0, 1)
    if not ends or not ends[1] then
      return 0
    end
    if #ends[1] ~= 8 or (ends[2] and #ends[2] ~= 16) then
      failed = failed or NOT_A_COUNTER
      return 0
    end
    if not ends[2] then
      return 0
    end
    local sum, newest = read('<d', ends[1]), hit_of(ask_server('LINDEX', key, -1))
    if newest + length <= now then
      empty(key)
      return 0
    end
    if hit_of(ends[2]) + length <= now then
      sum = drop_old(key, sum, length)
    end
    if newest - now > SLACK then
      newest = restamp(key, sum)
      put('PEXPIRE', key, ceil((newest + length - now) / 1000) + AFTERLIFE)
    end
    return sum, newest
  end

  -- The moment at which the oldest hits that make up `missing` have left the window.
  local function frees_at(key, missing, length)
    local from = 1
    while true do
      local elements = ask_server('LRANGE', key, from, from + CHUNK - 1)
      for j = 1, #elements do
        local moment, cost = hit_of(elements[j])
        missing = missing - cost
        if missing <= 0 then return moment + length end
      end
      if #elements < CHUNK then return 0 end
      from = from + CHUNK
    end
  end

  -- The check looked at last.
  local cost, length, sum, newest

  function log.look(key, question, at)
    local limit
    limit, cost, length = read('<ddd', question, at)
    sum, newest = settle(key, length)
    local fits, frees = cost == 0 or cost <= limit - sum, 0
    if not fits and cost <= limit then
      frees = frees_at(key, sum - (limit - cost), length)
    end
    return fits, cost > 0, sum, newest and newest + length or 0, frees
  end

  function log.charge(key)
    if not newest then
      local count = put('RPUSH', key, pack('<dd', now, cost))
      if count == 1 then
        put('LPUSH', key, pack('<d', cost))
      else
        put('LSET', key, 0, pack('<d', cost))
      end
      newest = now
    elseif newest >= now then
      local _, last = hit_of(ask_server('LINDEX', key, -1))
      put('LSET', key, -1, pack('<dd', newest, last + cost))
      put('LSET', key, 0, pack('<d', sum + cost))
    else
      local count = put('RPUSH', key, pack('<dd', now, cost))
      newest = now
      if count and count - 1 > HITS_MAX then
        local _, first = hit_of(ask_server('LINDEX', key, 1))
        local moment, second = hit_of(ask_server('LINDEX', key, 2))
        put('LSET', key, 2, pack('<dd', moment, first + second))
        put('LTRIM', key, 1, -1)
      end
      put('LSET', key, 0, pack('<d', sum + cost))
    end
    put('PEXPIRE', key, ceil((newest + length - now) / 1000) + AFTERLIFE)
    if failed and sum == 0 then
      call('DEL', key)
    end
  end

  -- Gives back the newest first.
  function log.change(key, question, at)
    local _
    _, cost, length = read('<ddd', question, at)
    sum, newest = settle(key, length)
    while newest and cost > 0 do
      local moment, last = hit_of(ask_server('LINDEX', key, -1))
      if last > cost then
        put('LSET', key, -1, pack('<dd', moment, last - cost))
        sum, cost, newest = sum - cost, 0, moment
      else
        put('RPOP', key)
        sum, cost = sum - last, cost - last
        if sum <= 0 then
          empty(key)
          return true
        end
      end
    end
    if newest then
      put('LSET', key, 0, pack('<d', sum))
      newest = hit_of(ask_server('LINDEX', key, -1))
      put('PEXPIRE', key, math.max(0, ceil((newest + length - now) / 1000)) + AFTERLIFE)
    end
    return true
  end
end
