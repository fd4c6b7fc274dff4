-- Fixed window: the units used in the current window, and its end. The first hit sets the end.
-- Every write sets the expiry of the key from that end, so a key that has lost its expiry gets it
-- back.
--
-- Numbers: limit, cost, unit (0: the window begins with the first hit, 1: at multiples of its
--          length, 2: with the month), length (the longest possible).
-- Counter: units used, end, 0.
-- Reply:   the counter.
if count > 1 then
  numbers[i] = numbers[i] or { read('<dddd', arguments, at) }
  limit, cost, unit, length, at = unpack(numbers[i])
elseif is_new then
  limit, cost, unit, length, at = read('<dddd', arguments, at)
end
if has_extras then
  -- include prepare.lua
  cost = operation == SETTLE and more or cost
end
if is_lease_call and is_new then
  -- include lease.lua
end

n1, n2 = s1, s2

if s2 <= now or s2 - now > length + SLACK then
  if unit == 0 then
    n2 = now + length
  elseif unit == 1 then
    n2 = now - now % length + length
  else
    -- include next_month.lua
    n2 = next_month(now)
  end
  if s2 <= now then
    n1, exists = 0, false
  else
    -- The clock was set back: the units used stay, and the window ends as if it had begun now.
    is_corrected, s2, unchanged = n2 < s2, n2, nil
  end
end

if given and exists then
  for j = 1, #given do
    if given[j][2] == n2 then
      n1 = n1 > given[j][1] and n1 - given[j][1] or 0
    end
  end
  s1, is_corrected, unchanged = n1, true, nil
end

if is_lease_call then
  lease_generation, is_kept = n2, generation > 0 and generation == n2
  if is_kept and back > 0 then
    n1 = n1 > back and n1 - back or 0
    s1, is_corrected, unchanged = n1, true, nil
  end
end

s_until, n_until = s2, n2

if is_refund then
  n1 = n1 > cost and n1 - cost or 0
else
  has_cost = cost > 0
  fits = not has_cost or cost <= limit - n1
  if is_count and cost > most - n1 then
    applied = most > n1 and most - n1 or 0
    n1 = n1 + applied
  else
    n1 = n1 + cost
  end
  if is_lease_call then
    local left = n1 < limit and limit - n1 or 0
    -- include grant.lua
    n1 = n1 + units
  end
end
