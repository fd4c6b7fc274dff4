-- Runs a command that reads. Its error fails the current store call only, not the whole script.
run = run or function(...)
  local result = call(...)
  if type(result) == 'table' and result.err then
    failed = failed or result.err
    return false
  end
  return result
end

-- Runs a command that writes, unless a command before it has failed: a store call is written
-- completely or not at all. Errors that a server may return, such as out of memory, it returns for
-- the first write. A key must never be empty between two commands: it would be deleted, and while
-- its slot is being migrated to another server it could not be created here again.
write = write or function(...)
  return not failed and run(...)
end

-- True if these are whole numbers from 0 to 2^53. Whatever has been read must be, before it is
-- used: another program may have written not-a-number, infinity or a fraction.
is_whole = is_whole or function(...)
  for j = 1, select('#', ...) do
    local number = select(j, ...)
    if not (number and number >= 0 and number <= EXACT and number % 1 == 0) then return false end
  end
  return true
end

-- Fails the current store call unless these are whole numbers from 0 to 2^53.
verify = verify or function(...)
  if not is_whole(...) then error(NOT_A_COUNTER) end
end

-- Lets the key expire at this time at the earliest.
expire_at = expire_at or function(key, time)
  write('PEXPIRE', key, math.max(0, ceil((time - now) / 1000)) + EXPIRY_MARGIN)
end
