-- Token bucket and both leaky buckets: the time at which the bucket is at rest (full, or for a
-- leaky bucket empty), as microseconds and a fraction. The fraction counts parts; `per` parts are
-- one microsecond.
--
-- Numbers: time to work off a full backlog (microseconds and parts), the same for the cost, parts
--          per microsecond, span (the rounded time for a full backlog).
-- Counter: microseconds, parts, the span with which they were written; negative if the bucket was
--          in debt then.
-- Reply:   the counter.
if count > 1 then
  numbers[i] = numbers[i] or { read('<dddddd', arguments, at) }
  whole, whole_part, cost, cost_part, per, span, at = unpack(numbers[i])
elseif is_new then
  whole, whole_part, cost, cost_part, per, span, at = read('<dddddd', arguments, at)
end
if has_extras then
  -- include prepare.lua
  if operation == SETTLE then
    -- include scaled.lua
    local _
    cost, cost_part = RECOVERY_MAX, 0
    if more / per * period < RECOVERY_MAX then
      _, cost, cost_part = scaled(more, period, per)
    end
  end
end
if is_lease_call and is_new then
  -- include lease.lua
end

-- The backlog: the time from now until the bucket is at rest.
local ahead, part = 0, 0
local is_in_debt = s3 < 0
s3 = is_in_debt and -s3 or s3

if s1 >= now then
  if s3 ~= span and (s1 > now or s2 > 0) then
    -- The quota has changed. The backlog is scaled: a bucket that was half empty stays half empty.
    -- include scaled.lua
    local backlog = scaled(s1 - now + (s2 > 0 and 1 or 0), span, s3)
    backlog = is_in_debt and backlog > RECOVERY_MAX and RECOVERY_MAX or backlog
    s1, s2, is_corrected = now + backlog, 0, true
    is_in_debt = is_in_debt and backlog > whole
  end
  if s1 - now > (is_in_debt and RECOVERY_MAX or span) + SLACK then
    -- The clock was set back: the bucket counts as used up. That frees no units, and denies
    -- requests for no longer than the bucket takes to recover. A bucket in debt keeps its moment.
    s1, s2, is_corrected, is_in_debt = now + whole, whole_part, true, false
  end
  ahead, part = s1 - now, s2 < per and s2 or per - 1
end

unchanged = not is_corrected and not is_in_debt and unchanged or nil

-- Before leases are considered: what was leased must not be freed by the return of something else.
if given and exists then
  -- include scaled.lua
  for j = 1, #given do
    local _, micros, parts = scaled(given[j][1], period, per)
    micros, parts = reservations.take(given[j][2], micros, parts)
    ahead, part = ahead - micros, part - parts
    if part < 0 then
      ahead, part = ahead - 1, part + per
    end
    if ahead < 0 then
      ahead, part = 0, 0
    end
  end
  s1, s2, is_corrected, unchanged = now + ahead, part, true, nil
  is_in_debt = ahead > whole or (ahead == whole and part > whole_part)
end

if generations then
  unchanged = nil
  if generations[#generations - 1] > now + GENERATION_MAX + SLACK then
    -- The clock was set back: no instance knows these generations any more, and the leases end as
    -- if they had been granted now.
    generations = { now + GENERATION_MAX, out }
  end
  -- include scaled.lua
  -- Leased units are not refilled: the bucket refills up to its capacity less the leased units.
  -- That is computed in steps: until the end of each generation, and until now. So units that are
  -- not returned count as spent when their generation ends, because an instance may have spent them
  -- until then.
  repeat
    local has_ended = generations[1] <= now
    local least, least_part = scaled(out, lease_period, lease_per), 0
    if least > whole then
      least, least_part = whole, whole_part
    end
    least = has_ended and generations[1] + least - now or least
    if least > ahead or (least == ahead and least_part > part) then
      ahead, part = least, least_part
      s1, s2 = now + ahead, part
    end
    if has_ended then
      out = out - generations[2]
      table.remove(generations, 1)
      table.remove(generations, 1)
    end
  until not has_ended or out == 0
  generations = out > 0 and generations or nil
end

if has_hash then
  -- For the low-water marks: the bucket without what is leased, which may be returned.
  leased_time = generations and (scaled(out, lease_period, lease_per)) or 0
  rest, rest_part, is_rest_in_debt = now + ahead - leased_time, part, is_in_debt
end

if is_lease_call then
  -- Units are taken back only if they are counted as leased. Otherwise they would exist twice.
  for index = 1, generation > 0 and generations and #generations or 0, 2 do
    if generations[index] == generation and held <= generations[index + 1] then
      generations[index + 1], out, is_kept = generations[index + 1] - held, out - held, true
      if generations[index + 1] == 0 then
        table.remove(generations, index)
        table.remove(generations, index)
      end
      break
    end
  end
  generations = out > 0 and generations or nil
  lease_period, lease_per = period, per
end

if is_refund or is_kept then
  ahead, part = ahead - (is_kept and back or cost), part - (is_kept and back_part or cost_part)
  if part < 0 then
    ahead, part = ahead - 1, part + per
  end
  if ahead < 0 then
    ahead, part = 0, 0
  end
end

if is_kept then
  s1, s2, is_corrected, unchanged = now + ahead, part, true, nil
  is_in_debt = ahead > whole or (ahead == whole and part > whole_part)
end

s3, s_until = is_in_debt and -span or span, s1

if not is_refund then
  local before, before_part = ahead, part
  has_cost = cost > 0 or cost_part > 0
  ahead, part = ahead + cost, part + cost_part
  if part >= per then
    ahead, part = ahead + 1, part - per
  end
  fits = not has_cost or ahead < whole or (ahead == whole and part <= whole_part)

  if is_count and (ahead > most or (ahead == most and part > most_part)) then
    -- What the bucket would owe beyond its debt is not charged.
    ahead, part = most, most_part
    if before > ahead or (before == ahead and before_part > part) then
      ahead, part = before, before_part
    end
    if operation == SETTLE then
      local _, units = scaled(ahead - before, per, period)
      applied = units < more and units or more
    end
  end
end

if is_lease_call then
  -- The whole units that are left, and the backlog that the granted ones add.
  local room, room_part = whole - ahead, whole_part - part
  if room_part < 0 then
    room, room_part = room - 1, room_part + per
  end
  local parts = room * per + room_part
  local left = parts < EXACT and floor(parts / period) or floor(room / period * per * 0.999999)
  left = left > 0 and left or 0
  -- include grant.lua
  units = units * period < EXACT and units or floor(EXACT / period) - 1
  local weight = units * period
  local rest = weight % per
  ahead, part = ahead + (weight - rest) / per, part + rest
  if part >= per then
    ahead, part = ahead + 1, part - per
  end

  local leased = (is_leased == 1 and units or 0) + (is_kept and keep or 0)
  if leased > 0 then
    -- The first generation that ends late enough, and not much later.
    local earliest = now + lease_length + LEASE_MARGIN
    generations = generations or {}
    local index = 1
    while generations[index] and generations[index] < earliest do
      index = index + 2
    end
    if not generations[index] or generations[index] > earliest + lease_length then
      table.insert(generations, index, 0)
      table.insert(generations, index, earliest + lease_length)
    end
    generations[index + 1], out = generations[index + 1] + leased, out + leased
    lease_generation = generations[index]
  end
end

if generations then
  -- When the bucket will be at rest if no leased unit is returned.
  -- include scaled.lua
  local least = scaled(out, lease_period, lease_per)
  leases_until = generations[#generations - 1] + (least < whole and least or whole + 1)
end

n1, n2, n_until = now + ahead, part, now + ahead
n3 = (ahead > whole or (ahead == whole and part > whole_part)) and -span or span
