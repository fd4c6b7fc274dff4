-- Token bucket and both leaky buckets: the moment at which the bucket is at rest again, to a fraction of a microsecond.
-- Numbers: whole microseconds and part of a full backlog, the same of the cost, parts per microsecond, span.
-- Counter: at, part, span it was written with.
-- Told:    the same.
if is_new then
  whole, whole_part, cost, cost_part, per, span, at = read('<dddddd', question, at)
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
s3, s_until = span, s1
if is_refund then
  ahead, part = ahead - cost, part - cost_part
  if part < 0 then
    ahead, part = ahead - 1, part + per
  end
  if ahead < 0 then
    ahead, part = 0, 0
  end
else
  costs = cost > 0 or cost_part > 0
  ahead, part = ahead + cost, part + cost_part
  if part >= per then
    ahead, part = ahead + 1, part - per
  end
  fits = not costs or ahead < whole or (ahead == whole and part <= whole_part)
end
n1, n2, n_until = now + ahead, part, now + ahead
