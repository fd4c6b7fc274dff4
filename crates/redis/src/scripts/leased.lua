-- Reads a counter that has been leased (see lease.lua), and checks what only such a counter has.
-- Units on lease are those of all generations, whose ends are in order.
s1, s2, s3, out, slice, callers, callers_before, turn, lease_period, lease_per =
  read('<dddddddddd', value)
has_leases, unchanged = true, sub(value, 1, 24)
is_valid = out >= 0 and out <= EXACT and out % 1 == 0
  and slice >= 0 and slice <= EXACT and slice % 1 == 0
  and callers >= 0 and callers <= EXACT and callers % 1 == 0
  and callers_before >= 0 and callers_before <= EXACT and callers_before % 1 == 0
  and turn >= 0 and turn <= EXACT and turn % 1 == 0
  and lease_period >= 1 and lease_period <= EXACT and lease_period % 1 == 0
  and lease_per >= 1 and lease_per <= EXACT and lease_per % 1 == 0
  and #value % 16 == 0
  -- More generations than there can be.
  and #value <= LEASED + 128 * 16
if is_valid and #value > LEASED then
  generations = { read('<' .. rep('d', (#value - LEASED) / 8), value, LEASED + 1) }
  -- The last result of reading is a position.
  generations[#generations] = nil
  local last, sum = 0, 0
  for j = 1, #generations, 2 do
    local ends, leased = generations[j], generations[j + 1]
    is_valid = is_valid and ends > last and ends <= EXACT and ends % 1 == 0
      and leased >= 1 and leased <= EXACT and leased % 1 == 0
    last, sum = ends, sum + leased
  end
  is_valid = is_valid and sum == out
elseif out > 0 then
  is_valid = false
end
