-- Sliding window counter: the count of the window under way and that of the one before it. Windows are whole multiples
-- of their length since the epoch.
-- Numbers: limit, cost, length.
-- Counter: current, previous, start of the current window.
-- Told:    the same.
if is_new then
  limit, cost, length, at = read('<ddd', question, at)
  if is_take then
    -- include lease.lua
  end
end
local start = now - now % length
if start > s3 then
  s1, s2, s3, told = 0, start - s3 == length and s1 or 0, start, nil
elseif start < s3 and s3 - now > SLACK then
  -- The clock was set back: everything counts as fresh, so that going back never refills.
  local both = s1 + s2
  s1, s2, s3, mended, told = both < EXACT and both or EXACT, 0, start, true, nil
end
if is_take then
  name, is_kept = s3, generation > 0 and generation == s3
  if is_kept and back > 0 then
    s1, mended, told = s1 > back and s1 - back or 0, true, nil
  end
end
n2, s_until = s2, s3 + 2 * length
n_until = s_until
if is_refund then
  n1 = s1 > cost and s1 - cost or 0
  if cost > s1 then
    n2 = s2 > cost - s1 and s2 - (cost - s1) or 0
  end
else
  costs = cost > 0
  n1 = s1 + cost
  local room = limit - s1 - cost
  if not costs then
    fits = true
  elseif room < 0 or s2 == 0 then
    fits = room >= 0
  else
    -- The previous window weighs as much as the sliding window still covers of it, rounded up.
    local covered = s3 + length - now
    covered = covered < length and covered or length
    if s2 * covered < EXACT then
      fits = s2 * covered <= room * length
    else
      -- include scaled.lua
      fits = scaled(s2, covered, length) <= room
    end
  end
  if is_take and fits and most > 0 then
    local covered = s3 + length - now
    -- include scaled.lua
    local left = limit - n1 - scaled(s2, covered < length and covered or length, length)
    units = left > most and most or left > 0 and left or 0
    n1 = n1 + units
  end
end
