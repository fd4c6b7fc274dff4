-- Concurrency: a sorted set of holders by the moment at which their leases run out. A holder's name is its lease, its
-- cost and its length. Two members more, with negative scores, save counting: the units in flight, and the latest
-- moment at which a lease was granted, which tells whether the clock has been set back since. They stay for a moment when
-- nobody holds anything: a key that goes while its slot is on its way to another server could not be written again here.
--
-- Numbers: limit, cost, length, lease (16 bytes): 40 bytes.
-- Counter: a sorted set.
-- Told:    units in flight, moment at which the last lease runs out, moment at which enough have for the check to fit.
-- include commands.lua
if not leases then
  leases = {}

  local SUM, LATEST = 's', 't'
  -- How many holders are read at a time, and at most to find out when enough of them are gone.
  local HOLDERS, HOLDERS_MAX = 128, 512

  -- Cost and length of a holder.
  local function holder_of(member)
    return read('<dd', member, 17)
  end

  -- Writes both numbers, and the expiry; a key that nobody holds goes soon.
  local function note(key, sum, latest)
    put('ZADD', key, -1 - sum, SUM, -1 - latest, LATEST)
    if sum <= 0 then
      put('PEXPIRE', key, AFTERLIFE)
      return 0
    end
    local last = ask_server('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local full_at = tonumber(last[2])
    put('PEXPIRE', key, math.max(0, ceil((full_at - now) / 1000)) + AFTERLIFE)
    return full_at
  end

  -- Pulls in the leases that were granted before the clock was set back; returns the latest moment of a grant.
  local function pull_in(key)
    local members, latest = ask_server('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES'), 0
    for j = 1, #members, 2 do
      local _, length = holder_of(members[j])
      local expires = tonumber(members[j + 1])
      if expires - (now + length) > SLACK then
        expires = now + length
        put('ZADD', key, expires, members[j])
      end
      latest = math.max(latest, expires - length)
    end
    return latest
  end

  -- Forgets leases that have run out. Returns the units in flight, the latest grant, and when the last lease runs out.
  local function settle(key)
    local numbers = ask_server('ZMSCORE', key, SUM, LATEST)
    if not numbers or not numbers[1] or not numbers[2] then
      return 0, 0, 0
    end
    local sum, latest, mended = -1 - tonumber(numbers[1]), -1 - tonumber(numbers[2]), false
    if latest - now > SLACK then
      latest, mended = pull_in(key), true
    end
    local gone = ask_server('ZRANGEBYSCORE', key, 0, now)
    if #gone > 0 then
      for j = 1, #gone do
        sum = sum - holder_of(gone[j])
      end
      put('ZREMRANGEBYSCORE', key, 0, now)
      mended = true
    end
    if mended then
      return sum, latest, note(key, sum, latest)
    elseif sum <= 0 then
      return 0, latest, 0
    end
    return sum, latest, tonumber(ask_server('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
  end

  -- The moment at which the leases that make up `missing` have run out. Past so many holders it is that of the last one,
  -- because counting on would hold up everyone: a place may be given back before in any case.
  local function frees_at(key, missing, full_at)
    -- The two numbers come first, then the holders.
    for from = 2, HOLDERS_MAX, HOLDERS do
      local members = ask_server('ZRANGE', key, from, from + HOLDERS - 1, 'WITHSCORES')
      for j = 1, #members, 2 do
        missing = missing - holder_of(members[j])
        if missing <= 0 then return tonumber(members[j + 1]) end
      end
    end
    return full_at
  end

  -- The check looked at last.
  local cost, length, sum, latest, lease

  function leases.look(key, question, at)
    local limit, full_at
    limit, cost, length, lease = read('<dddc16', question, at)
    sum, latest, full_at = settle(key)
    local fits, frees = cost == 0 or cost <= limit - sum, 0
    if not fits and cost <= limit then
      frees = frees_at(key, sum - (limit - cost), full_at)
    end
    return fits, cost > 0, sum, full_at, frees
  end

  function leases.charge(key)
    put('ZADD', key, now + length, lease .. pack('<dd', cost, length))
    note(key, sum + cost, math.max(now, latest))
    if failed and sum == 0 then
      call('DEL', key)
    end
  end

  -- The holder's name. Cost 0 means that nobody knows what the lease took: only then every holder is looked at.
  local function find(key)
    local name = lease .. pack('<dd', cost, length)
    if cost > 0 then
      return ask_server('ZSCORE', key, name) and name
    end
    local members = ask_server('ZRANGE', key, 2, -1)
    for j = 1, members and #members or 0 do
      if members[j]:sub(1, 16) == lease then return members[j] end
    end
  end

  -- Ends a lease, or starts its time again. False when it has already ended. A refund leaves leases alone: they are given
  -- back by their name, not by their cost.
  function leases.change(key, question, at, ask)
    local limit
    limit, cost, length, lease = read('<dddc16', question, at)
    if ask == REFUND then
      return true
    end
    sum, latest = settle(key)
    local holder = sum > 0 and find(key)
    if not holder then
      return false
    end
    local held = holder_of(holder)
    put('ZREM', key, holder)
    if ask == RENEW then
      put('ZADD', key, now + length, lease .. pack('<dd', held, length))
      note(key, sum, math.max(now, latest))
    else
      note(key, sum - held, latest)
    end
    return true
  end
end
