-- Reservations of a counter: a hash beside it. While a reservation is open, its id is a field with
-- its expiry, the window of its charge and its units. One more field is the earliest expiry, or an
-- earlier time. A reservation that has been settled has a key of its own, until that is forgotten.
--
-- Numbers, after those of the demand, if they apply; for a bucket "cost" is two numbers:
--   of a count or settlement:  the most that the counter may hold, as a cost
--   of a reservation:          units
--   of a settlement:           the cost beyond the reserved units, the units to return
--   of a bucket with a hash:   how many microseconds the rate's `per` units take
-- include commands.lua
if not reservations then
  reservations = {}

  local EARLIEST = 'e'
  -- The most open reservations of a counter.
  local OPEN_MAX = 65536
  local CHUNK = 128

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
      if fields[j] ~= EARLIEST then
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
    local key = KEYS[extra_keys]
    -- An inspection does not forget reservations that return nothing.
    local found = expired(key, is_final and (is_released or not is_inspection))
    given = is_released and found or nil
    if operation == SETTLE then
      extra_keys = extra_keys + 1
      known = settle(key, KEYS[extra_keys], returned)
    elseif operation == RESERVE and not failed and (run('HLEN', key) or 0) > OPEN_MAX then
      failed = 'ERR too many open reservations of one counter'
    end
    return at
  end

  -- The number of open reservations, and the units that they have charged, at most 2^53.
  function reservations.outstanding()
    local open, units = 0, 0
    local fields = has_reservations and run('HGETALL', KEYS[extra_keys])
    for j = 1, fields and #fields or 0, 2 do
      if fields[j] ~= EARLIEST then
        local expires, _, charged = read('<ddd', fields[j + 1])
        if expires > now then
          open, units = open + 1, units + charged
        end
      end
    end
    return open, math.min(units, EXACT)
  end

  -- Remembers what was charged in this window, until the counter forgets it.
  function reservations.add(window, counted_until)
    local key, expires = KEYS[extra_keys], now + ttl
    local earliest = run('HGET', key, EARLIEST)
    earliest = earliest and math.min(read('<d', earliest), expires) or expires
    write('HSET', key, id, pack('<ddd', expires, window, reserved), EARLIEST, pack('<d', earliest))
    keep_until(key, math.max(expires, counted_until))
  end

  -- Keeps the reservations as long as the counter knows what they have charged.
  function reservations.keep(counted_until)
    keep_until(KEYS[extra_keys], counted_until)
  end
end
