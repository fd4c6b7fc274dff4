-- Token bucket and both leaky buckets: the time at which the bucket is at rest (full, or for a
-- leaky bucket empty), as microseconds and a fraction. The fraction counts parts; `per` parts are
-- one microsecond.
--
-- Numbers: time to work off a full backlog (microseconds and parts), the same for the cost, parts
--          per microsecond, span (the rounded time for a full backlog).
-- Counter: microseconds, parts, the span with which they were written.
-- Reply:   the counter.
if count > 1 then
  numbers[i] = numbers[i] or { read('<dddddd', arguments, at) }
  whole, whole_part, cost, cost_part, per, span, at = unpack(numbers[i])
elseif is_new then
  whole, whole_part, cost, cost_part, per, span, at = read('<dddddd', arguments, at)
  if is_lease_call then
    -- include lease.lua
  end
end

-- The backlog: the time from now until the bucket is at rest.
local ahead, part = 0, 0

if s1 >= now then
  if s3 ~= span and (s1 > now or s2 > 0) then
    -- The quota has changed. The backlog is scaled: a bucket that was half empty stays half empty.
    -- include scaled.lua
    s1, s2, is_corrected = now + scaled(s1 - now + (s2 > 0 and 1 or 0), span, s3), 0, true
  end
  if s1 - now > span + SLACK then
    -- The clock was set back: the bucket counts as used up. That frees no units, and denies
    -- requests for no longer than the bucket takes to recover.
    s1, s2, is_corrected = now + whole, whole_part, true
  end
  ahead, part = s1 - now, s2 < per and s2 or per - 1
end

unchanged = not is_corrected and unchanged or nil

if has_leases then
  if young > now + SLACK then
    -- The clock was set back: no instance knows these generations any more, and the leases end as
    -- if they had been granted now.
    young, young_units, old, old_units = now, young_units + old_units, 0, 0
  end
  -- include scaled.lua
  -- Leased units are not refilled: the bucket refills up to its capacity less the leased units.
  -- That is computed in steps: until the end of the old generation, until the end of the young one,
  -- until now. So units that are not returned count as spent when their generation ends, because an
  -- instance may have spent them until then.
  for step = 1, 3 do
    local step_end = step == 1 and old + LEASE_LIFE or step == 2 and young + LEASE_LIFE or now
    local leased = old_units + young_units
    if (step == 1 and old_units or step == 2 and young_units or leased) > 0 and step_end <= now then
      local least, least_part = scaled(leased, lease_period, lease_per), 0
      if least > whole then
        least, least_part = whole, whole_part
      end
      least = step_end + least - now
      if least > ahead or (least == ahead and least_part > part) then
        ahead, part = least, least_part
        s1, s2 = now + ahead, part
      end
      old_units = step == 1 and 0 or old_units
      young_units = step == 2 and 0 or young_units
    end
  end
  has_leases = young_units + old_units > 0
end

if is_lease_call then
  -- Units are taken back only if they are counted as leased. Otherwise they would exist twice.
  if generation > 0 and generation == young and held <= young_units then
    young_units, is_kept = young_units - held, true
  elseif generation > 0 and generation == old and held <= old_units then
    old_units, is_kept = old_units - held, true
  end
  if now - young >= GENERATION then
    old, old_units, young, young_units = young, young_units, now, 0
  end
  if is_kept then
    young_units = young_units + keep
  end
  lease_generation = young
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
end

s3, s_until = span, s1

if not is_refund then
  has_cost = cost > 0 or cost_part > 0
  ahead, part = ahead + cost, part + cost_part
  if part >= per then
    ahead, part = ahead + 1, part - per
  end
  fits = not has_cost or ahead < whole or (ahead == whole and part <= whole_part)
end

if is_lease_call and fits and most > 0 then
  -- The whole units that are left, and the backlog that they add.
  local room, room_part = whole - ahead, whole_part - part
  if room_part < 0 then
    room, room_part = room - 1, room_part + per
  end
  local parts = room * per + room_part
  units = parts < EXACT and math.floor(parts / period) or math.floor(room / period * per * 0.999999)
  units = units < most and units or most
  units = units * period < EXACT and units or math.floor(EXACT / period) - 1
  units = units > 0 and units or 0
  local weight = units * period
  local rest = weight % per
  ahead, part = ahead + (weight - rest) / per, part + rest
  if part >= per then
    ahead, part = ahead + 1, part - per
  end
  young_units = young_units + (is_leased == 1 and units or 0)
end

if is_lease_call then
  has_leases = young_units + old_units > 0
end

if has_leases then
  -- When the bucket will be at rest if no leased unit is returned.
  -- include scaled.lua
  local least = scaled(old_units + young_units, lease_period, lease_per)
  leases_until = young + LEASE_LIFE + (least < whole and least or whole + 1)
end

n1, n2, n_until = now + ahead, part, now + ahead
