-- Fixed window: how much is used of the window under way, and when it ends. The end is set by the first hit and stays;
-- every write gives the key the expiry that follows from it, also one that has lost it.
-- Numbers: limit, cost, unit (0 from the first hit, 1 whole multiples of the length, 2 months), length (the longest).
-- Counter: count, end, 0.
-- Told:    the same.
if is_new then
  limit, cost, unit, length, at = read('<dddd', question, at)
  if is_take then
    -- include lease.lua
  end
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
    n1, known = 0, false
  else
    -- The clock was set back: the count stays, and the window ends as if it had begun now.
    mended, s2, told = n2 < s2, n2, nil
  end
end
if is_take then
  name, is_kept = n2, generation > 0 and generation == n2
  if is_kept and back > 0 then
    n1 = n1 > back and n1 - back or 0
    s1, mended, told = n1, true, nil
  end
end
s_until, n_until = s2, n2
if is_refund then
  n1 = n1 > cost and n1 - cost or 0
else
  costs = cost > 0
  fits = not costs or cost <= limit - n1
  n1 = n1 + cost
  if is_take and fits and n1 < limit then
    units = most < limit - n1 and most or limit - n1
    n1 = n1 + units
  end
end
