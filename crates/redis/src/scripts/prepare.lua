-- Reads the numbers of a demand with a maximum or with reservations, and its reservations. What
-- another program has written must not fail the whole batch.
-- include reservations.lua
at = reservations.read_numbers(at, kind == BUCKET)
if has_hash then
  -- A log gives back in the first phase what the others give back in the second.
  local is_log = kind == LOG
  local sweep = (is_log and (phase == first_phase and 2 or 0)) or phase
  if not pcall(reservations.prepare, extra, sweep) then
    failed, given = failed or NOT_A_COUNTER, nil
  end
end
