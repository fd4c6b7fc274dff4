-- Sliding window log: a list of hits, oldest first, after a head that holds their sum. A list
-- without hits keeps its head until it expires: a key that is deleted while its slot is being
-- migrated to another server could not be created here again.
--
-- Numbers: limit, cost, length: 24 bytes.
-- Counter: a list. The head is the sum of all costs; each other element is the time and cost of
--          hits.
-- Reply:   sum, time when the newest hit leaves the window, time when enough hits have left it for
--          the demand to fit, or if it fits, for more units to be left (0 if there are none, or
--          if it never fits).
-- include commands.lua
if not log then
  log = {}

  -- Most elements of a list. Beyond that, the two oldest are merged into one with the later time.
  local HITS_MAX = 8192
  -- How many elements are read or written by one command.
  local CHUNK = 128

  local function read_hit(element)
    return read('<dd', element)
  end

  -- Replaces all hits. Returns the times of the newest and the oldest.
  local function rewrite(key, sum, hits)
    -- The new list is appended to the old one, which is then cut off.
    write('RPUSH', key, pack('<d', sum))
    for from = 1, #hits, CHUNK do
      local chunk = {}
      for j = from, math.min(from + CHUNK - 1, #hits) do
        chunk[#chunk + 1] = pack('<dd', hits[j][1], hits[j][2])
      end
      write('RPUSH', key, unpack(chunk))
    end
    write('LTRIM', key, -1 - #hits, -1)
    return hits[#hits][1], hits[1][1]
  end

  -- The clock was set back: rewrites the list so that no hit is later than now plus the slack.
  -- Returns the times of the newest and the oldest hit.
  local function restamp(key, sum)
    local elements, hits = run('LRANGE', key, 1, -1), {}
    for j = 1, #elements do
      local time, cost = read_hit(elements[j])
      hits[j] = { time - now > SLACK and now or time, cost }
    end
    table.sort(hits, function(a, b) return a[1] < b[1] end)
    return rewrite(key, sum, hits)
  end

  -- Removes the hits that have left the window. Returns the sum of the others and the time of the
  -- oldest of them.
  local function drop_old(key, sum, length)
    local dropped, old, oldest = 0, true, nil
    while old do
      local elements = run('LRANGE', key, dropped + 1, dropped + CHUNK)
      for j = 1, #elements do
        local time, cost = read_hit(elements[j])
        old, oldest = time + length <= now, time
        if not old then break end
        dropped, sum = dropped + 1, sum - cost
      end
      old = old and #elements == CHUNK
    end

    -- The last removed hit becomes the new head.
    write('LSET', key, dropped, pack('<d', sum))
    write('LTRIM', key, dropped, -1)
    return sum, oldest
  end

  -- Removes all hits, but not the head.
  local function empty(key)
    write('LSET', key, 0, pack('<d', 0))
    write('LTRIM', key, 0, 0)
  end

  -- Removes old hits. Returns the sum of the others and the times of the newest and the oldest; 0
  -- and nil if there are none.
  local function settle(key, length)
    local ends = run('LRANGE', key, 0, 1)
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

    local sum, newest = read('<d', ends[1]), read_hit(run('LINDEX', key, -1))
    if newest + length <= now then
      empty(key)
      return 0
    end
    local oldest = read_hit(ends[2])
    if oldest + length <= now then
      sum, oldest = drop_old(key, sum, length)
    end

    if newest - now > SLACK then
      newest, oldest = restamp(key, sum)
      expire_at(key, newest + length)
    end
    return sum, newest, oldest
  end

  -- The time at which the oldest hits, with a total cost of at least `missing`, have left the
  -- window.
  local function frees_at(key, missing, length)
    local from = 1
    while true do
      local elements = run('LRANGE', key, from, from + CHUNK - 1)
      for j = 1, #elements do
        local time, cost = read_hit(elements[j])
        missing = missing - cost
        if missing <= 0 then return time + length end
      end
      if #elements < CHUNK then return 0 end
      from = from + CHUNK
    end
  end

  -- Returns units that reservations have charged: from their own hits, or if hits have been merged
  -- from earlier ones. Returns the sum of the others and the times of the newest and the oldest.
  local function give_back(key, sum)
    local elements, hits = run('LRANGE', key, 1, -1), {}
    for j = 1, #elements do
      local time, cost = read_hit(elements[j])
      hits[j] = { time, cost }
    end
    for j = 1, #given do
      local units = given[j][1]
      for k = #hits, 1, -1 do
        if hits[k][1] <= given[j][2] and units > 0 then
          local returned = math.min(units, hits[k][2])
          hits[k][2], units, sum = hits[k][2] - returned, units - returned, sum - returned
        end
      end
    end

    local left = {}
    for j = 1, #hits do
      if hits[j][2] > 0 then left[#left + 1] = hits[j] end
    end
    if #left == 0 then
      empty(key)
      return 0
    end
    return sum, rewrite(key, sum, left)
  end

  -- The demand examined last.
  local limit, cost, length, sum, newest, oldest

  -- Removes old hits, and what reservations return.
  local function update(key, arguments, at)
    limit, cost, length = read('<ddd', arguments, at)
    sum, newest, oldest = settle(key, length)
    if given and newest then
      sum, newest, oldest = give_back(key, sum)
      if newest then expire_at(key, newest + length) end
    end
    given = nil
  end

  function log.examine(key, arguments, at)
    update(key, arguments, at)
    log.oldest = oldest

    local fits, frees = cost == 0 or cost <= limit - sum, 0
    local wanted = math.max(cost, 1)
    if wanted <= limit - sum then
      frees = oldest and oldest + length or 0
    elseif cost <= limit then
      frees = frees_at(key, sum - (limit - wanted), length)
    end
    return fits, cost > 0, sum, newest and newest + length or 0, frees
  end

  -- Adds a hit with the cost of the demand examined last, or with as much of it as the log may owe.
  -- Returns the time of the hit, and when it leaves the window.
  function log.charge(key)
    if is_count and cost > limit - sum and cost > most - sum then
      cost = most - sum
      if cost <= 0 then return newest, newest + length end
    end
    if not newest then
      local count = write('RPUSH', key, pack('<dd', now, cost))
      if count == 1 then
        write('LPUSH', key, pack('<d', cost))
      else
        write('LSET', key, 0, pack('<d', cost))
      end
      newest = now
    elseif newest >= now then
      -- Hits at the same time share an element.
      local _, last = read_hit(run('LINDEX', key, -1))
      write('LSET', key, -1, pack('<dd', newest, last + cost))
      write('LSET', key, 0, pack('<d', sum + cost))
    else
      local count = write('RPUSH', key, pack('<dd', now, cost))
      newest = now
      if count and count - 1 > HITS_MAX then
        local _, first = read_hit(run('LINDEX', key, 1))
        local time, second = read_hit(run('LINDEX', key, 2))
        write('LSET', key, 2, pack('<dd', time, first + second))
        write('LTRIM', key, 1, -1)
      end
      write('LSET', key, 0, pack('<d', sum + cost))
    end

    expire_at(key, newest + length)
    if failed and sum == 0 then
      -- The list was created by this call: nothing of it may remain.
      call('DEL', key)
    end
    return newest, newest + length
  end

  -- Refunds the cost, beginning with the newest hit, or settles a reservation.
  function log.change(key, arguments, at)
    if operation == SETTLE then
      local _, actual = read('<dd', arguments, at)
      local charged = known == OPEN and more or known == UNKNOWN and actual or 0
      if charged > 0 or given then
        update(key, arguments, at)
        cost = charged
        if cost > 0 then log.charge(key) end
      end
      return true
    end
    update(key, arguments, at)

    while newest and cost > 0 do
      local time, last = read_hit(run('LINDEX', key, -1))
      if last > cost then
        write('LSET', key, -1, pack('<dd', time, last - cost))
        sum, cost, newest = sum - cost, 0, time
      else
        write('RPOP', key)
        sum, cost = sum - last, cost - last
        if sum <= 0 then
          empty(key)
          return true
        end
      end
    end

    if newest then
      write('LSET', key, 0, pack('<d', sum))
      newest = read_hit(run('LINDEX', key, -1))
      expire_at(key, newest + length)
    end
    return true
  end
end
