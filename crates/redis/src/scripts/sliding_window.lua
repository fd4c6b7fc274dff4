-- Sliding window counter: the units used in the current window and in the previous one. Windows
-- begin at multiples of their length since the epoch.
--
-- Numbers: limit, cost, length.
-- Counter: units in the current window, units in the previous one, start of the current window.
-- Reply:   the counter.
if count > 1 then
  numbers[i] = numbers[i] or { read('<ddd', arguments, at) }
  limit, cost, length, at = unpack(numbers[i])
elseif is_new then
  limit, cost, length, at = read('<ddd', arguments, at)
end
if has_extras then
  -- include prepare.lua
  cost = operation == SETTLE and more or cost
end
if is_lease_call and is_new then
  -- include lease.lua
end

local start = now - now % length

if start > s3 then
  s1, s2, s3, unchanged = 0, start - s3 == length and s1 or 0, start, nil
elseif start < s3 and s3 - now > SLACK then
  -- The clock was set back: all units count as used now, so that setting it back never frees any.
  local both = s1 + s2
  s1, s2, s3, is_corrected, unchanged = both < EXACT and both or EXACT, 0, start, true, nil
end

if given and exists then
  for j = 1, #given do
    local units, window = given[j][1], given[j][2]
    if window == s3 then
      s1 = s1 > units and s1 - units or 0
    elseif window == s3 - length then
      s2 = s2 > units and s2 - units or 0
    end
  end
  is_corrected, unchanged = true, nil
end

if is_lease_call then
  lease_generation, is_kept = s3, generation > 0 and generation == s3
  if is_kept and back > 0 then
    s1, is_corrected, unchanged = s1 > back and s1 - back or 0, true, nil
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
  -- The previous window counts in proportion to how much of it the sliding window still covers,
  -- rounded up.
  local previous = 0
  if s2 > 0 then
    local covered = s3 + length - now
    covered = covered < length and covered or length
    if s2 * covered < EXACT then
      previous = ceil(s2 * covered / length)
    else
      -- include scaled.lua
      previous = scaled(s2, covered, length)
    end
  end

  has_cost = cost > 0
  if is_count and cost > most - s1 then
    applied = most > s1 and most - s1 or 0
    n1 = s1 + applied
  else
    n1 = s1 + cost
  end
  -- In this order, because the sum of the units used and the cost may not be exact.
  local left = limit - s1 - cost - previous
  fits = not has_cost or left >= 0
  if is_lease_call then
    left = left > 0 and left or 0
    -- include grant.lua
    n1 = n1 + units
  end
end
