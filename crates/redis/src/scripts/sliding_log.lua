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
-- A function of its own, because a function has at most 200 local variables.
log = log or (function()
  local log = {}

  -- Most elements of a list. Beyond that, the two oldest are merged into one with the later time.
  local HITS_MAX = 8192
  -- The most hits that are searched for the time when enough of them have left the window, and from
  -- which one reservation takes units back.
  local SEARCH_MAX, GIVE_BACK_MAX = 512, 32
  -- What taking units from a hit takes from the budget. At least one hit is used in any case.
  local GIVE_BACK_COST = 8
  -- How many elements are read or written by one command.
  local CHUNK = 128

  local function read_hit(element)
    local time, cost = read('<dd', element)
    if
      #element ~= 16
      or not (time >= 0 and time <= EXACT and cost >= 0 and cost <= EXACT)
      or time % 1 > 0
      or cost % 1 > 0
    then
      error(NOT_A_COUNTER)
    end
    return time, cost
  end

  -- The clock was set back: hits that are later than now plus the slack become one hit now. Only
  -- hits later than now are read and written. Returns the times of the newest and the oldest hit.
  local function restamp(key, oldest)
    local last, late, soon = run('LLEN', key) - 1, 0, {}
    local newest, is_later = now, true
    while is_later and last > 0 do
      if #soon > HITS_MAX or last > HITS_MAX then error(NOT_A_COUNTER) end
      local elements = run('LRANGE', key, math.max(1, last - CHUNK + 1), last)
      for j = #elements, 1, -1 do
        local time, cost = read_hit(elements[j])
        is_later = time > now
        if not is_later then break end
        last, sweep_left = last - 1, sweep_left - 1
        if time - now > SLACK then
          late = late + cost
        else
          newest, soon[#soon + 1] = math.max(newest, time), elements[j]
        end
      end
    end
    verify(late)

    -- The head remains, so the key is never empty.
    write('LTRIM', key, 0, last)
    write('RPUSH', key, pack('<dd', now, late))
    for j = #soon, 1, -1 do
      write('RPUSH', key, soon[j])
    end
    return newest, last > 0 and oldest or now
  end

  -- Removes hits that have left the window, as many as the budget allows. Returns the sum of the
  -- others and the time of the oldest of them.
  local function drop_old(key, sum, length)
    local dropped, old, oldest = 0, true, nil
    while old and sweep_left > 0 do
      local most = math.min(CHUNK, sweep_left)
      local elements = run('LRANGE', key, dropped + 1, dropped + most)
      for j = 1, #elements do
        local time, cost = read_hit(elements[j])
        old, oldest = time + length <= now, time
        if not old then break end
        dropped, sum, sweep_left = dropped + 1, sum - cost, sweep_left - 1
      end
      if #elements < most then break end
    end
    verify(sum)

    -- The last removed hit becomes the new head.
    write('LSET', key, dropped, pack('<d', sum))
    write('LTRIM', key, dropped, -1)
    return sum, old and read_hit(run('LINDEX', key, 1)) or oldest
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
    if not (sum >= 0 and sum <= EXACT) or sum % 1 > 0 then error(NOT_A_COUNTER) end
    if newest + length <= now then
      empty(key)
      return 0
    end
    local oldest = read_hit(ends[2])
    if oldest + length <= now and sweep_left > 0 then
      sum, oldest = drop_old(key, sum, length)
    end

    if newest - now > SLACK and sweep_left > 0 then
      newest, oldest = restamp(key, oldest)
      expire_at(key, newest + length)
    end
    return sum, newest, oldest
  end

  -- The time at which the oldest hits, with a total cost of at least `missing`, have left the
  -- window. With too many hits, or if the script has searched through too many, it is the time of
  -- the last one: counting all of them would delay other calls.
  local function frees_at(key, missing, length)
    -- Usually a few hits are enough.
    local from, last = 1, 16
    while from <= SEARCH_MAX and search_left > 0 do
      local elements = run('LRANGE', key, from, last)
      search_left = search_left - #elements
      for j = 1, #elements do
        local time, cost = read_hit(elements[j])
        missing = missing - cost
        if missing <= 0 then return time + length end
      end
      from, last = last + 1, math.min(last + CHUNK, SEARCH_MAX)
    end
    return read_hit(run('LINDEX', key, -1)) + length
  end

  -- The times of the newest and the oldest hit, or nil if there are none.
  local function ends(key)
    local oldest = run('LINDEX', key, 1)
    if oldest then
      return read_hit(run('LINDEX', key, -1)), read_hit(oldest)
    end
  end

  -- The index of the last hit that is not later than this time; 0 if there is none.
  local function last_until(key, time)
    local low, high = 0, run('LLEN', key) - 1
    while low < high do
      local middle = ceil((low + high) / 2)
      if read_hit(run('LINDEX', key, middle)) <= time then
        low = middle
      else
        high = middle - 1
      end
    end
    return low
  end

  -- Returns units that reservations have charged: from their own hits, or if hits have been merged
  -- from some earlier ones. Returns the sum of the others and the times of the newest and the
  -- oldest.
  local function give_back(key, sum)
    -- The indexes of hits of which nothing is left. They are removed together at the end, because
    -- removing one takes a pass through the list.
    local empty_at = {}
    for j = 1, #given do
      local units, at = given[j][1], last_until(key, given[j][2])
      local most = math.min(GIVE_BACK_MAX + 1, math.max(1, floor(sweep_left / GIVE_BACK_COST)))
      while at > 0 and most > 0 and units > 0 do
        if not empty_at[at] then
          local time, cost = read_hit(run('LINDEX', key, at))
          local returned = math.min(units, cost)
          units, sum, most = units - returned, sum - returned, most - 1
          sweep_left = sweep_left - GIVE_BACK_COST
          if returned < cost then
            write('LSET', key, at, pack('<dd', time, cost - returned))
          else
            empty_at[at] = true
          end
        end
        at = at - 1
      end
    end

    for at in pairs(empty_at) do
      write('LSET', key, at, '')
    end
    if next(empty_at) then
      write('LREM', key, 0, '')
    end
    verify(sum)
    write('LSET', key, 0, pack('<d', sum))
    return sum, ends(key)
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
      if more > 0 or given then
        update(key, arguments, at)
        cost = more
        if cost > 0 then
          log.charge(key)
          applied = math.max(0, cost)
        end
      end
      return true
    end
    update(key, arguments, at)
    if not newest then
      return true
    elseif cost >= sum then
      empty(key)
      return true
    end

    local last = run('LLEN', key) - 1
    while last > 0 and cost > 0 do
      local from = math.max(1, last - CHUNK + 1)
      local elements = run('LRANGE', key, from, last)
      for j = #elements, 1, -1 do
        local time, units = read_hit(elements[j])
        local returned = math.min(units, cost)
        cost, sum = cost - returned, sum - returned
        if returned < units then
          write('LSET', key, last, pack('<dd', time, units - returned))
        else
          last = last - 1
        end
        if cost <= 0 then break end
      end
    end

    verify(sum)
    write('LTRIM', key, 0, last)
    write('LSET', key, 0, pack('<d', sum))
    if last > 0 then
      newest = ends(key)
      expire_at(key, newest + length)
    end
    return true
  end

  return log
end)()
