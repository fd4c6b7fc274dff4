-- Token bucket and both leaky buckets: the moment at which the bucket is at rest again, to a fraction of a microsecond.
-- Numbers: whole microseconds and part of a full backlog, the same of the cost, parts per microsecond, span.
-- Counter: at, part, span it was written with.
-- Told:    the same.
if is_new then
  whole, whole_part, cost, cost_part, per, span, at = read('<dddddd', question, at)
  if is_take then
    -- include lease.lua
  end
end
local ahead, part = 0, 0
if s1 >= now then
  if s3 ~= span and (s1 > now or s2 > 0) then
    -- Other numbers than last time: what was half empty stays half empty.
    -- include scaled.lua
    s1, s2, mended = now + scaled(s1 - now + (s2 > 0 and 1 or 0), span, s3), 0, true
  end
  if s1 - now > span + SLACK then
    -- The clock was set back: an empty bucket, which refills nothing and locks nobody out.
    s1, s2, mended = now + whole, whole_part, true
  end
  ahead, part = s1 - now, s2 < per and s2 or per - 1
end
told = not mended and told or nil
if is_out then
  if young > now + SLACK then
    -- The clock was set back: nobody knows these names any more, and what is out counts from now.
    young, young_out, old, old_out = now, young_out + old_out, 0, 0
  end
  -- include scaled.lua
  -- The bucket fills up to what is out and no further: until the old generation ended, until the young one did, until now.
  -- So what ends without coming back counts as spent when it ends: somebody may have spent it until then.
  for step = 1, 3 do
    local mark = step == 1 and old + OUT_FOR or step == 2 and young + OUT_FOR or now
    local out = old_out + young_out
    if (step == 1 and old_out or step == 2 and young_out or out) > 0 and mark <= now then
      local full, full_part = scaled(out, out_period, out_per), 0
      if full > whole then
        full, full_part = whole, whole_part
      end
      full = mark + full - now
      if full > ahead or (full == ahead and full_part > part) then
        ahead, part = full, full_part
        s1, s2 = now + ahead, part
      end
      old_out = step == 1 and 0 or old_out
      young_out = step == 2 and 0 or young_out
    end
  end
  is_out = young_out + old_out > 0
end
if is_take then
  -- What is not counted as out is not taken back: it would be there twice.
  if generation > 0 and generation == young and held <= young_out then
    young_out, is_kept = young_out - held, true
  elseif generation > 0 and generation == old and held <= old_out then
    old_out, is_kept = old_out - held, true
  end
  if now - young >= GENERATION then
    old, old_out, young, young_out = young, young_out, now, 0
  end
  if is_kept then
    young_out = young_out + keep
  end
  name = young
  out_period, out_per = period, per
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
  s1, s2, mended, told = now + ahead, part, true, nil
end
s3, s_until = span, s1
if not is_refund then
  costs = cost > 0 or cost_part > 0
  ahead, part = ahead + cost, part + cost_part
  if part >= per then
    ahead, part = ahead + 1, part - per
  end
  fits = not costs or ahead < whole or (ahead == whole and part <= whole_part)
end
if is_take and fits and most > 0 then
  -- Whole units that are left, and what they weigh.
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
  young_out = young_out + (is_lent == 1 and units or 0)
end
if is_take then
  is_out = young_out + old_out > 0
end
if is_out then
  -- When it is full again if nothing comes back.
  -- include scaled.lua
  local full = scaled(old_out + young_out, out_period, out_per)
  out_until = young + OUT_FOR + (full < whole and full or whole + 1)
end
n1, n2, n_until = now + ahead, part, now + ahead
