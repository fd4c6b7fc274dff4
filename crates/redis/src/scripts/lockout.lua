-- Lockout: the denials of a key, beside its counter. A key is either counting denials or locked.
-- This is the arithmetic of the core's `lockout.rs`.
--
-- Numbers: after, within, for, factor, max.
-- Value:   the end of the window of denials, or if there are none, of the last lockout; denials;
--          level; when all this is forgotten.
-- Reply:   the first three after the decision, with -1 - level if the demand has locked the key.
-- include commands.lua
if not lockout then
  lockout = {}

  local LEVEL_MAX, DENIALS_MAX = 255, 4294967295

  -- The length of the lockout with this number.
  local function length_at(level)
    local locked = lock_for
    for _ = 2, level do
      if lock_factor == 1 or locked == lock_max then break end
      locked = locked * lock_factor
      locked = locked < lock_max and locked or lock_max
    end
    return locked
  end

  -- A moment that is at most this far ahead. It is further only if the clock was set back or the
  -- lockout was made shorter.
  local function at_most(moment, longest)
    return moment - now > longest + SLACK and now + longest or moment
  end

  -- Denies a demand whose key is locked, and counts its denial by the limit itself if `is_counted`.
  -- Returns whether the demand fits. Nothing is written in phase 1.
  function lockout.decide(key, fits, has_cost, is_counted, is_written)
    local ends, denials, level, forgotten = 0, 0, 0, 0
    local value = call('GET', key)
    local is_valid = not value
    if value and type(value) == 'string' and #value == 32 then
      ends, denials, level, forgotten = read('<dddd', value)
      is_valid = is_whole(ends, denials, level, forgotten)
        and level <= LEVEL_MAX
        and denials <= DENIALS_MAX
    end
    if not is_valid then
      failed, lock_reply = failed or value.err or NOT_A_COUNTER, UNUSED
      return fits
    end

    local quiet = lock_max > lock_within and lock_max or lock_within
    local is_changed, is_new = false, false
    if forgotten <= now then
      ends, denials, level, forgotten = 0, 0, 0, 0
    else
      local locked = length_at(level)
      local new_ends = at_most(ends, denials > 0 and lock_within or locked)
      local new_forgotten = at_most(forgotten, level > 0 and locked + quiet or lock_within)
      is_changed = new_ends ~= ends or new_forgotten ~= forgotten
      ends, forgotten = new_ends, new_forgotten
    end

    local is_locked = denials == 0 and ends > now
    if has_cost and not fits and not is_locked and is_counted then
      is_changed = true
      if denials == 0 or ends <= now then
        denials, ends = 0, now + lock_within
      end
      denials = denials + 1
      if denials < lock_after then
        forgotten = forgotten > ends and forgotten or ends
      else
        level = level < LEVEL_MAX and level + 1 or level
        denials, ends = 0, now + length_at(level)
        forgotten, is_locked, is_new = ends + quiet, true, true
      end
    end

    if is_changed and is_written and not failed then
      local expiry = ceil((forgotten - now) / 1000) + EXPIRY_MARGIN
      failed = call('SET', key, pack('<dddd', ends, denials, level, forgotten), 'PX', expiry).err
    end
    lock_reply = pack('<ddd', ends, denials, is_new and -1 - level or level)
    return fits and not (is_locked and has_cost)
  end
end
