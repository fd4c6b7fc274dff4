-- Reservations of a counter: a hash beside it. While a reservation is open, its id is a field with
-- its expiry, the window of its charge and its units. One more field is the earliest expiry, or an
-- earlier time. A reservation that has been settled has a key of its own, until that is forgotten.
--
-- A bucket has no windows. Its reservations are numbered, and the hash has the low-water marks of
-- the bucket: the smallest backlog since the reservations up to some number were charged. What a
-- reservation returns is bounded by its mark, so that the bucket is as if less had been charged in
-- the first place. This is the arithmetic of the core's `low_water.rs`. The field contains the
-- bucket when the marks were last updated (microseconds, parts, without what is leased), parts per
-- microsecond, span (negative if the bucket was in debt), how many reservations have been made, and
-- for each mark a number, microseconds and parts. Numbers and marks are ascending.
--
-- Numbers, after those of the demand, if they apply; for a bucket "cost" is two numbers:
--   of a count or settlement:  the most that the counter may hold, as a cost
--   of a reservation:          units
--   of a settlement:           the cost beyond the reserved units, the units to return
--   of a bucket with a hash:   how many microseconds the rate's `per` units take
-- include commands.lua
if not reservations then
  reservations = {}

  local EARLIEST, MARKS = 'e', 'm'
  -- The most open reservations of a counter.
  local OPEN_MAX = 65536
  local CHUNK = 128
  -- The most low-water marks of a bucket.
  local MARKS_MAX = 32
  -- The hash of the current demand. For a bucket whose marks have been read: the marks, how many
  -- reservations have been made, and whether the hash has marks.
  local hash, marks, made, has_marks

  local function is_less(a, a_part, b, b_part)
    return a < b or (a == b and a_part < b_part)
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

  -- Reads the low-water marks, and lowers them to the backlog that is certainly left now.
  function reservations.observe()
    local field = run('HGET', hash, MARKS)
    marks, made, has_marks = {}, 0, field and true
    if not field then
      return
    end

    local low, part, of_per, of_span
    low, part, of_per, of_span, made = read('<ddddd', field)
    marks = { read('<' .. rep('d', (#field - 40) / 8), field, 41) }
    -- The last result of reading is a position.
    marks[#marks] = nil

    low = low - now
    local longest = of_span < 0 and RECOVERY_MAX or span
    if of_per ~= per or math.abs(of_span) ~= span or low < 0 or low > longest + SLACK then
      low, part = 0, 0
    end
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
    if not marks then
      reservations.observe()
    end
    made = made + (is_new and 1 or 0)
    if has_marks or is_new then
      local field = pack('<ddddd', at, part, per, is_in_debt and -span or span, made)
      write('HSET', hash, MARKS, field .. pack('<' .. rep('d', #marks), unpack(marks)))
    end
    return made
  end

  -- Lets the hash expire at this time at the earliest, and not before it would have.
  local function keep_until(key, time)
    local left = run('PTTL', key)
    if left and left < (time - now) / 1000 then
      expire_at(key, time)
    end
  end

  -- Returns the units and windows of expired reservations, or nil. Removes them if `is_final`.
  local function expired(key, is_final)
    local earliest = run('HGET', key, EARLIEST)
    has_reservations = earliest and true
    if not earliest or now < read('<d', earliest) then
      return nil
    end

    local fields, names, found, next_expiry = run('HGETALL', key), {}, {}, EXACT
    for j = 1, fields and #fields or 0, 2 do
      if #fields[j] > 1 then
        local expires, window, units = read('<ddd', fields[j + 1])
        if expires <= now then
          names[#names + 1], found[#found + 1] = fields[j], { units, window }
        else
          next_expiry = math.min(next_expiry, expires)
        end
      end
    end
    if is_final then
      for from = 1, #names, CHUNK do
        write('HDEL', key, unpack(names, from, math.min(from + CHUNK - 1, #names)))
      end
      write('HSET', key, EARLIEST, pack('<d', next_expiry))
    end
    return found[1] and found
  end

  -- What is known of the reservation that is to be settled. Remembers that it was.
  local function settle(key, settled_key, returned)
    local settled_until = run('GET', settled_key)
    if settled_until and read('<d', settled_until) > now then
      return REPEATED
    end

    local field, known = run('HGET', key, id), UNKNOWN
    if field then
      local expires, window = read('<dd', field)
      if expires > now then
        known = OPEN
        if returned > 0 then
          given = given or {}
          given[#given + 1] = { returned, window }
        end
      end
      write('HDEL', key, id)
    end
    write('SET', settled_key, pack('<d', now + ttl), 'PX', ceil(ttl / 1000) + EXPIRY_MARGIN)
    return known
  end

  -- Reads the numbers, and finds out which units are returned (`given`). For a settlement, `known`
  -- is what is known of the reservation, and `more` the cost if it is open. Returns the position
  -- after the numbers.
  function reservations.prepare(at, is_bucket, is_final)
    given, has_reservations = nil, nil
    if is_count then
      most, at = read('<d', arguments, at)
      if is_bucket then
        most_part, at = read('<d', arguments, at)
      end
    end
    local returned
    if operation == RESERVE and has_hash then
      reserved, at = read('<d', arguments, at)
    elseif operation == SETTLE then
      more, at = read('<d', arguments, at)
      if is_bucket then
        more_part, at = read('<d', arguments, at)
      end
      returned, at = read('<d', arguments, at)
    end
    if not has_hash then
      return at
    end
    if is_bucket then
      period, at = read('<d', arguments, at)
    end

    extra_keys = extra_keys + 1
    hash, marks = KEYS[extra_keys], nil
    -- An inspection or a refund does not forget reservations that return nothing.
    local found = expired(hash, is_final and (is_released or operation >= RESERVE))
    given = is_released and found or nil
    if operation == SETTLE then
      extra_keys = extra_keys + 1
      known = settle(hash, KEYS[extra_keys], returned)
    elseif operation == RESERVE and not failed and (run('HLEN', hash) or 0) > OPEN_MAX then
      failed = 'ERR too many open reservations of one counter'
    end
    return at
  end

  -- The number of open reservations, and the units that they have charged, at most 2^53.
  function reservations.outstanding()
    local open, units = 0, 0
    local fields = has_reservations and run('HGETALL', hash)
    for j = 1, fields and #fields or 0, 2 do
      if #fields[j] > 1 then
        local expires, _, charged = read('<ddd', fields[j + 1])
        if expires > now then
          open, units = open + 1, units + charged
        end
      end
    end
    return open, math.min(units, EXACT)
  end

  -- Remembers what was charged in this window, or under this number, until the counter forgets it.
  function reservations.add(window, counted_until)
    local expires = now + ttl
    local earliest = run('HGET', hash, EARLIEST)
    earliest = earliest and math.min(read('<d', earliest), expires) or expires
    write('HSET', hash, id, pack('<ddd', expires, window, reserved), EARLIEST, pack('<d', earliest))
    keep_until(hash, math.max(expires, counted_until))
  end

  -- Keeps the reservations as long as the counter knows what they have charged.
  function reservations.keep(counted_until)
    keep_until(hash, counted_until)
  end
end
