-- Reservations of a counter, in two keys beside it. A hash has a field for each open reservation,
-- its id, with its expiry, the window of its charge and its units, and a field with the units that
-- all of them have charged. A sorted set has the ids by their expiry, and one more member that comes
-- first, so that it is never empty.
-- A reservation that has ended has a key of its own, the mark, until that is forgotten: when that
-- is, how it has ended (1 settled, 2 cancelled), and the units that it has charged in all.
--
-- A call does the same work however many reservations are open. It ends at most SWEEP_MAX of those
-- that have expired, the first to expire first, and fewer if calls before it in the same script have
-- used up the budget; the others still count.
--
-- A bucket has no windows. Its reservations are numbered, and the hash has the low-water marks of
-- the bucket: the smallest backlog since the reservations up to some number were charged. What a
-- reservation returns is bounded by its mark, so that the bucket is as if less had been charged in
-- the first place. This is the arithmetic of the core's `low_water.rs`. The field contains the
-- bucket when the marks were last updated (microseconds, parts, without what is leased), parts per
-- microsecond, span (negative if the bucket was in debt), how many reservations have been made, and
-- for each mark a number, microseconds and parts. Numbers and marks are ascending.
--
-- Numbers, after those of the demand, if they apply:
--   of a count or settlement:  the most that the counter may hold; of a bucket, two numbers
--   of a reservation:          units
--   of a settlement:           the actual cost in units, -1 if it is what was reserved; the units to
--                              charge if the reservation is not open
--   of a bucket with a hash:   how many microseconds the rate's `per` units take
-- include commands.lua
-- A function of its own, because a function has at most 200 local variables.
reservations = reservations or (function()
  local reservations = {}

  local TOTAL, MARKS = 'u', 'm'
  -- The most open reservations of a counter, and the most that a call ends after their expiry.
  local OPEN_MAX, SWEEP_MAX = 65536, 32
  -- What ending one takes from the budget.
  local SWEEP_COST = 64
  -- The most low-water marks of a bucket.
  local MARKS_MAX = 32
  -- The keys of the current demand. For a bucket whose marks have been read: the marks, how many
  -- reservations have been made, and whether the hash has marks.
  local hash, index, marks, made, has_marks
  -- The numbers of a settlement.
  local actual, late

  local function is_less(a, a_part, b, b_part)
    return a < b or (a == b and a_part < b_part)
  end

  -- Reads three numbers that no other program has written.
  local function read_record(record)
    local first, second, third = read('<ddd', record)
    if #record ~= 24 then error(NOT_A_COUNTER) end
    verify(first, second, third)
    return first, second, third
  end

  local function remove_mark(at)
    for _ = 1, 3 do
      table.remove(marks, at)
    end
  end

  -- Merges the two marks that differ least into the lower one.
  local function merge_nearest()
    local nearest, least, least_part = 1, EXACT, 0
    for j = 1, #marks - 3, 3 do
      local gap, gap_part = marks[j + 4] - marks[j + 1], marks[j + 5] - marks[j + 2]
      if gap_part < 0 then
        gap, gap_part = gap - 1, gap_part + per
      end
      if is_less(gap, gap_part, least, least_part) then
        nearest, least, least_part = j, gap, gap_part
      end
    end
    marks[nearest] = marks[nearest + 3]
    remove_mark(nearest + 3)
  end

  -- Lowers the marks to this backlog. It is the mark of the reservations since the last one.
  local function lower(low, part)
    while marks[1] and not is_less(marks[#marks - 1], marks[#marks], low, part) do
      remove_mark(#marks - 2)
    end
    if (marks[#marks - 2] or 0) < made then
      marks[#marks + 1], marks[#marks + 2], marks[#marks + 3] = made, low, part
    end
    if #marks > 3 * MARKS_MAX then
      merge_nearest()
    end
  end

  -- Reads the low-water marks, and lowers them to the backlog that is certainly left now.
  function reservations.observe()
    local field = run('HGET', hash, MARKS)
    marks, made, has_marks = {}, 0, field and true
    if not field then
      return
    end

    local low, part, of_per, of_span
    if #field > 64 + 24 * MARKS_MAX or #field % 24 ~= 16 then error(NOT_A_COUNTER) end
    low, part, of_per, of_span, made = read('<ddddd', field)
    marks = { read('<' .. rep('d', (#field - 40) / 8), field, 41) }
    -- The last result of reading is a position.
    marks[#marks] = nil
    verify(low, part, of_per, math.abs(of_span), made, unpack(marks))
    for j = 3, #marks, 3 do
      if marks[j] >= of_per then error(NOT_A_COUNTER) end
    end

    low = low - now
    local longest = of_span < 0 and RECOVERY_MAX or span
    if of_per ~= per or math.abs(of_span) ~= span or low < 0 or low > longest + SLACK then
      low, part = 0, 0
    end
    lower(low, part)
  end

  -- How much of this backlog a reservation returns. The marks since then are lower by that.
  function reservations.take(number, micros, parts)
    local first = 1
    while marks[first] and marks[first] < number do
      first = first + 3
    end
    if not marks[first] then
      return 0, 0
    end

    if is_less(marks[first + 1], marks[first + 2], micros, parts) then
      micros, parts = marks[first + 1], marks[first + 2]
    end
    for j = first, #marks, 3 do
      local mark, part = marks[j + 1] - micros, marks[j + 2] - parts
      if part < 0 then
        mark, part = mark - 1, part + per
      end
      marks[j + 1], marks[j + 2] = mark, part
    end
    local lowest, lowest_part = marks[first + 1], marks[first + 2]
    while first > 1 and not is_less(marks[first - 2], marks[first - 1], lowest, lowest_part) do
      first = first - 3
      remove_mark(first)
    end
    return micros, parts
  end

  -- Writes the low-water marks with the bucket as it is now. Returns the number of the reservation,
  -- if the demand makes one (`is_new`).
  function reservations.record(at, part, is_in_debt, is_new)
    if is_new then
      -- Its mark is never higher than the backlog now, even if the clock goes back a little.
      made = made + 1
      lower(math.max(0, at - now), at < now and 0 or part)
    end
    if has_marks or is_new then
      local field = pack('<ddddd', at, part, per, is_in_debt and -span or span, made)
      write('HSET', hash, MARKS, field .. pack('<' .. rep('d', #marks), unpack(marks)))
    end
    return made
  end

  -- Reads the numbers of the demand, and returns the position after them.
  function reservations.read_numbers(at, is_bucket)
    given, has_reservations = nil, nil
    if is_count then
      most, at = read('<d', arguments, at)
      if is_bucket then
        most_part, at = read('<d', arguments, at)
      end
    end
    if operation == RESERVE and has_hash then
      reserved, at = read('<d', arguments, at)
    elseif operation == SETTLE then
      actual, late, at = read('<dd', arguments, at)
      known, ended_as, more, charged_units = REPEATED, decided_as or ending, 0, 0
    end
    if has_hash and is_bucket then
      period, at = read('<d', arguments, at)
    end
    return at
  end

  -- Changes the units that all open reservations have charged.
  local function add_total(units)
    local total = write('HINCRBY', hash, TOTAL, units)
    if total and total < 0 then failed = NOT_A_COUNTER end
  end

  -- Lets both keys expire at this time at the earliest, and not before they would have.
  local function keep_until(time)
    local left = run('PTTL', hash)
    if left and left < (time - now) / 1000 then
      expire_at(hash, time)
      expire_at(index, time)
    end
  end

  -- Returns how many reservations are known to have expired, and the units and windows of these, or
  -- nil. Removes them if `is_final`.
  local function expired(is_final)
    local head = run('ZRANGE', index, 0, 1, 'WITHSCORES')
    has_reservations = head[1] and true
    if head[1] and head[1] ~= TOTAL then error(NOT_A_COUNTER) end
    local most = math.min(SWEEP_MAX, floor(sweep_left / SWEEP_COST))
    if not head[3] or tonumber(head[4]) > now or most <= 0 then
      return 0
    end

    local first, ids, found, units = run('ZRANGE', index, 1, most, 'WITHSCORES'), {}, {}, 0
    for j = 1, #first, 2 do
      if tonumber(first[j + 1]) <= now then ids[#ids + 1] = first[j] end
    end
    sweep_left = sweep_left - #ids * SWEEP_COST
    local records = run('HMGET', hash, unpack(ids))
    for j = 1, #ids do
      -- A server that evicts keys may have evicted one of the two.
      if records[j] then
        local _, window, charged = read_record(records[j])
        found[#found + 1], units = { charged, window }, units + charged
      end
    end
    if is_final then
      write('HDEL', hash, unpack(ids))
      write('ZREM', index, unpack(ids))
      if units > 0 then
        add_total(-units)
      end
    end
    return #ids, found[1] and found
  end

  -- Ends the reservation that is to be settled, unless it has ended before: `known` is what is known
  -- of it, and `more` the units to charge. Returns the units to return and their window, if any.
  local function end_here(mark_key)
    local mark = run('GET', mark_key)
    if mark then
      local known_until, code, units = read_record(mark)
      if code ~= 1 and code ~= 2 then error(NOT_A_COUNTER) end
      if known_until > now then
        ended_as, charged_units = code, units
        return nil
      end
    end

    local record, returned = run('HGET', hash, id), nil
    known, ended_as, more, charged_units = UNKNOWN, ending, late, late
    local expires, window, units
    if record then
      expires, window, units = read_record(record)
      if expires > now or was_open then
        charged_units = actual < 0 and units or actual
        known, more = OPEN, charged_units > units and charged_units - units or 0
        returned = charged_units < units and { units - charged_units, window }
      else
        returned = is_released and { units, window }
      end
    end

    if ending ~= UNDONE then
      local expiry = ceil(ttl / 1000) + EXPIRY_MARGIN
      write('SET', mark_key, pack('<ddd', now + ttl, ending, charged_units), 'PX', expiry)
    end
    if record then
      write('HDEL', hash, id)
      add_total(-units)
      write('ZREM', index, id)
    end
    return returned
  end

  -- Corrects what the reservation has charged, because the counter may not owe all of it.
  function reservations.correct_charge(units, mark_key)
    charged_units = charged_units - more + units
    local expiry = ceil(ttl / 1000) + EXPIRY_MARGIN
    write('SET', mark_key, pack('<ddd', now + ttl, ending, charged_units), 'PX', expiry)
  end

  -- The number of open reservations, and the units that they have charged, at most 2^53.
  local function outstanding()
    local members = has_reservations and run('ZCARD', index) or 0
    if members <= 1 then
      return 0, 0
    end
    local total = run('HGET', hash, TOTAL) or '0'
    if not string.find(total, '^%d+$') then error(NOT_A_COUNTER) end
    return members - 1, math.min(tonumber(total), EXACT)
  end

  -- Finds out which units are returned (`given`), and ends the reservation that is to be settled.
  -- `sweep` is 0 if nothing is ended after its expiry, 1 if it stays, 2 if it is removed. The keys
  -- begin after `extra`.
  function reservations.prepare(extra, sweep)
    hash, index, marks = KEYS[extra + 1], KEYS[extra + 2], nil
    local returned
    if operation == SETTLE then
      if decided_as and decided_as ~= ending then
        -- The reservation has ended in the other way.
        return
      end
      returned = end_here(KEYS[extra + 3])
    end

    -- A refund does not forget reservations that return nothing.
    local is_final = sweep == 2 and (is_released or operation >= RESERVE or is_inspection)
    local ended, found = 0, nil
    if sweep > 0 then
      ended, found = expired(is_final)
    else
      has_reservations = run('EXISTS', index) == 1
    end
    given = is_released and found or nil
    if returned then
      given = given or {}
      given[#given + 1] = returned
    end
    if kind == BUCKET and (given or is_refund or operation >= RESERVE) then
      reservations.observe()
    end
    -- In phase 1 those that phase 2 ends are still there.
    local ending_soon = sweep == 1 and ended or 0
    sweep_planned = sweep_planned + ending_soon * SWEEP_COST
    if operation == RESERVE and run('ZCARD', index) - ending_soon > OPEN_MAX then
      is_full = true
      failed = failed or (shadow == 0 and TOO_MANY) or nil
    end
    if is_inspection then
      reservations.open, reservations.units = outstanding()
    end
  end

  -- Remembers what was charged in this window, or under this number, until the counter forgets it.
  function reservations.add(window, counted_until)
    local expires = now + ttl
    write('HSET', hash, id, pack('<ddd', expires, window, reserved))
    add_total(reserved)
    write('ZADD', index, 0, TOTAL, expires, id)
    keep_until(math.max(expires, counted_until))
  end

  -- Keeps the reservations as long as the counter knows what they have charged.
  function reservations.keep(counted_until)
    keep_until(counted_until)
  end

  return reservations
end)()
