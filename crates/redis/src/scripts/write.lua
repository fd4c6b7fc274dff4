-- Writes a counter. A server that has accepted a counter in this script also accepts it again, so
-- later writes are postponed to the end: many calls about the same key write it twice at most.
local expiry = ceil((s_until - now) / 1000)
expiry = (expiry > 0 and expiry or 0) + EXPIRY_MARGIN

if postponed and postponed[key] ~= nil then
  values[key], postponed[key] = value, expiry
else
  failed = call('SET', key, value, 'PX', expiry).err
  if values and not failed then
    values[key], postponed[key] = value, false
  end
end
