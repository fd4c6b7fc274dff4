-- Decides how many of the units that are left an instance gets, and for how long.
--
-- Before: fits, has_cost, and left: the whole units that are left after the cost, if it fits.
-- After:  units, lease_length, turn_after.
--
-- An instance gets what it wants, up to an equal share of what is left for each instance that
-- calls, for long. If it needs more than that, it gets what it needs, for a brief time. If nothing
-- is left then, the instances take turns: each is assigned a later time to call again, so that the
-- number of calls does not grow with the number of instances.
if is_leased == 0 then
  units = fits and (needed < left and needed or left) or 0
else
  -- Counts each instance once in a slice of time.
  if slice > now or now - slice >= long then
    callers_before = slice <= now and now - slice < 2 * long and callers or 0
    slice, callers = now, 0
  end
  if called_at < slice then
    callers = callers + 1
  end

  lease_length = long
  if fits then
    local instances = callers > callers_before and callers or callers_before
    local share = floor(left / (instances > 0 and instances or 1))
    units = wanted < share and wanted or share
    if units < needed and units < left then
      units, lease_length = needed < left and needed or left, brief
    end
    has_leases = has_leases or units > 0
  end

  if (has_cost or wanted > 0) and not (fits and units < left) then
    turn = (turn > now and turn or now) + spacing
    turn = turn < now + TURN_MAX and turn or now + TURN_MAX
    turn_after = turn - now
    -- The turn is stored even if nothing is charged.
    has_leases, is_corrected = true, true
  end
end
