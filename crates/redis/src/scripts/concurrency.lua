-- Concurrency: a sorted set of permits by the time at which they expire. The name of a member is
-- the permit's id, its cost and its permit timeout. Two more members, with negative scores, save
-- counting: the units in flight, and the latest time at which a permit was granted, which shows
-- whether the clock has been set back since. They stay for a short time when there are no permits:
-- a key that is deleted while its slot is being migrated to another server could not be created
-- here again. A permit of more than one unit has another member, its id, whose score is -1 less its
-- cost: by it the permit is found if only its id is known.
--
-- A call does the same work however many permits there are. It ends at most SWEEP_MAX of those that
-- have expired, the first to expire first, and fewer if calls before it in the same script have used
-- up the budget; the others still count.
--
-- Numbers: limit, cost, permit timeout, permit id (16 bytes): 40 bytes.
-- Counter: a sorted set.
-- Reply:   units in flight, time when the last permit expires, time when enough permits have
--          expired for the demand to fit (0 if it fits now or never).
-- include commands.lua
-- A function of its own, because a function has at most 200 local variables.
permits = permits or (function()
  local permits = {}

  local SUM, LATEST = 's', 't'
  -- How many permits are read by one command, at most to find when enough of them have expired, and
  -- at most to be ended or shortened.
  local CHUNK, SEARCH_MAX, SWEEP_MAX = 128, 512, 512
  -- What ending or shortening one takes from the budget.
  local SWEEP_COST = 16

  -- The cost and permit timeout of a member.
  local function read_permit(member)
    local cost, length = read('<dd', member, 17)
    if
      #member ~= 32
      or not (cost >= 0 and cost <= EXACT and length >= 0 and length <= EXACT)
      or cost % 1 > 0
      or length % 1 > 0
    then
      error(NOT_A_COUNTER)
    end
    return cost, length
  end

  -- Writes both numbers and the expiry of the key, which is short if there are no permits. Returns
  -- the time when the last permit expires.
  local function write_totals(key, sum, latest)
    write('ZADD', key, -1 - sum, SUM, -1 - latest, LATEST)
    if sum <= 0 then
      expire_at(key, now)
      return 0
    end

    local last = run('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local last_expiry = tonumber(last[2])
    verify(last_expiry)
    expire_at(key, last_expiry)
    return last_expiry
  end

  -- The most permits that may be ended or shortened now.
  local function sweep_max()
    return math.max(0, math.min(SWEEP_MAX, floor(sweep_left / SWEEP_COST)))
  end

  -- The clock was set back: shortens the permits that were granted before, the last to expire
  -- first. Returns the latest time of a grant, which stays if there are more of them.
  local function shorten(key, latest)
    local most = sweep_max()
    local members = run('ZREVRANGEBYSCORE', key, '+inf', 0, 'WITHSCORES', 'LIMIT', 0, most)
    local found = 0
    sweep_left = sweep_left - #members / 2 * SWEEP_COST
    for j = 1, #members, 2 do
      local _, length = read_permit(members[j])
      local expires = tonumber(members[j + 1])
      verify(expires)
      if expires - (now + length) > SLACK then
        expires = now + length
        write('ZADD', key, expires, members[j])
      end
      found = math.max(found, expires - length)
    end
    return #members < 2 * most and found or latest
  end

  -- Removes permits. Returns their cost.
  local function remove(key, members)
    local names, sum = {}, 0
    for j = 1, #members do
      local cost = read_permit(members[j])
      names[#names + 1], sum = members[j], sum + cost
      if cost > 1 then
        names[#names + 1] = sub(members[j], 1, 16)
      end
    end
    write('ZREM', key, unpack(names))
    return sum
  end

  -- Removes expired permits. Returns the units in flight, the latest time of a grant, and the time
  -- when the last permit expires.
  local function settle(key)
    local numbers = run('ZMSCORE', key, SUM, LATEST)
    if not numbers or not numbers[1] or not numbers[2] then
      return 0, 0, 0
    end
    local sum, latest, is_corrected = -1 - tonumber(numbers[1]), -1 - tonumber(numbers[2]), false
    verify(sum, latest)
    if latest - now > SLACK then
      latest, is_corrected = shorten(key, latest), true
    end

    local expired = run('ZRANGEBYSCORE', key, 0, now, 'LIMIT', 0, sweep_max())
    sweep_left = sweep_left - #expired * SWEEP_COST
    if expired[1] then
      sum, is_corrected = sum - remove(key, expired), true
      verify(sum)
    end

    if is_corrected then
      return sum, latest, write_totals(key, sum, latest)
    elseif sum <= 0 then
      return 0, latest, 0
    end
    local last_expiry = tonumber(run('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
    verify(last_expiry)
    return sum, latest, last_expiry
  end

  -- The time at which the first permits, with a total cost of at least `missing`, have expired.
  -- With too many permits, or if the script has searched through too many, it is the time of the last
  -- one, because counting all of them would delay other calls; a permit may be released earlier
  -- anyway.
  local function frees_at(key, missing, last_expiry)
    -- Usually a few permits are enough.
    local from, most = 0, 16
    while from < SEARCH_MAX and search_left > 0 do
      local members = run('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', from, most)
      search_left = search_left - #members / 2
      for j = 1, #members, 2 do
        missing = missing - read_permit(members[j])
        if missing <= 0 then
          local expires = tonumber(members[j + 1])
          verify(expires)
          return expires
        end
      end
      from = from + most
      most = math.min(CHUNK, SEARCH_MAX - from)
    end
    return last_expiry
  end

  -- The demand examined last.
  local limit, cost, length, sum, latest, permit_id

  function permits.examine(key, arguments, at)
    local last_expiry
    limit, cost, length, permit_id = read('<dddc16', arguments, at)
    sum, latest, last_expiry = settle(key)

    local fits, frees = cost == 0 or cost <= limit - sum, 0
    if not fits and cost <= limit then
      frees = frees_at(key, sum - (limit - cost), last_expiry)
    end
    return fits, cost > 0, sum, last_expiry, frees
  end

  -- Adds a permit with the cost of the demand examined last, unless it is more than may be owed.
  function permits.charge(key)
    if is_count and cost > limit - sum and sum + cost > most then return end
    write('ZADD', key, now + length, permit_id .. pack('<dd', cost, length))
    if cost > 1 then
      write('ZADD', key, -1 - cost, permit_id)
    end
    write_totals(key, sum + cost, math.max(now, latest))
    if failed and sum == 0 then
      -- The set was created by this call: nothing of it may remain.
      call('DEL', key)
    end
  end

  -- The name of the member for the permit. Cost 0 means that the caller does not know the cost of
  -- the permit.
  local function find(key)
    if cost == 0 then
      cost = -1 - tonumber(run('ZSCORE', key, permit_id) or -2)
      verify(cost)
    end
    local name = permit_id .. pack('<dd', cost, length)
    return run('ZSCORE', key, name) and name
  end

  -- Releases or renews a permit. Returns false if it has expired. A refund changes nothing: permits
  -- are released by their id, not by their cost.
  function permits.change(key, arguments, at, operation)
    limit, cost, length, permit_id = read('<dddc16', arguments, at)
    if operation == REFUND then
      return true
    end

    sum, latest = settle(key)
    local member = sum > 0 and find(key)
    if not member then
      return false
    end

    if operation == RENEW then
      write('ZADD', key, now + length, member)
      write_totals(key, sum, math.max(now, latest))
    else
      write_totals(key, sum - remove(key, { member }), latest)
    end
    return true
  end

  return permits
end)()
