-- Writes a counter, which then is the last one that was read.
local expiry = ceil((s_until - now) / 1000)
failed = call('SET', key, value, 'PX', (expiry > 0 and expiry or 0) + EXPIRY_MARGIN).err
last_key, last_value = not failed and key or nil, value
