-- Finds out whether a demand has failed because another program has written to one of its keys:
-- then they are deleted, and a shadow limit begins again, once. Commands on such keys have
-- these errors; all others are about the server.
local is_malformed = failed == NOT_A_COUNTER or sub(failed, 1, 9) == 'WRONGTYPE'
if sub(failed, 1, 4) == 'ERR ' then
  local texts = { 'not an integer', 'out of range', 'overflow', 'invalid expire', 'no such key' }
  for j = 1, #texts do
    is_malformed = is_malformed or string.find(failed, texts[j], 1, true)
  end
end

faulty = i - 1
if is_malformed then
  failed = NOT_A_COUNTER
  call('UNLINK', key, unpack(KEYS, extra + 1, extra_keys))
  if values then
    values[key], postponed[key] = nil, nil
  end
  if shadow == 1 and not is_restarted then
    failed, faulty, is_restarted, is_done = nil, nil, true, false
  end
end
