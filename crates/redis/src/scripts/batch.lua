-- Decides about requests, one after the other, at one moment.
--
-- KEYS:  the counters of every check of every request, in order.
-- ARGV:  one for each request: what is asked (1 spend, 2 peek, 3 refund, 4 release, 5 renew), how many checks, and for
--        each check its algorithm (1 bucket, 2 fixed, 3 sliding, 4 log, 5 leases), 1 if it is a shadow, and its numbers
--        (see the algorithm).
-- Reply: one string: the moment, then for each request 1 if it passed (or, for what is no question, was done), 0 if not,
--        and for each check of a spend or peek three numbers (see what the algorithm tells); or 2, the length of an
--        error and the error: then the request has changed nothing.
--
-- There are no functions on the way of the usual request, and no tables but the reply: making them anew for every call
-- took three times as long as deciding. A line that says `include` stands for the file it names.

-- include time.lua

-- Within this many microseconds a clock that goes back stands still instead: it was not set.
local SLACK = 1000000
-- Up to here every integer is exact.
local EXACT = 9007199254740992
local SPEND, REFUND, RENEW = 1, 3, 5
local BUCKET, FIXED, SLIDING, LOG = 1, 2, 3, 4
local NOT_A_COUNTER = 'ERR the key holds something that is not a counter'

local call, pack, read, ceil = redis.pcall, struct.pack, struct.unpack, math.ceil
-- Made when they are needed.
local scaled, next_month, ask_server, put, log, leases
-- The first error that the request under way has met.
local failed
local reply, replies = { pack('<d', now) }, 1
local keys = 0
-- The counter asked about last, and what it holds.
local last_key, last_value

for request = 1, #ARGV do
  local argument = ARGV[request]
  local ask, count, first = read('<BB', argument)
  local is_spend, is_refund, passes = ask == SPEND, ask == REFUND, true
  local answer = replies + 1
  replies, failed = answer, nil

  -- Several checks are all looked at before any is settled; a single one is settled at once.
  for round = (count > 1 and ask < REFUND) and 1 or 2, 2 do
    local at = first
    for i = 1, count do
      local key, kind, shadow = KEYS[keys + i]
      kind, shadow, at = read('<BB', argument, at)
      -- Whether the check may pass, whether it costs anything, the counter as seen, the counter if it is charged, and
      -- until when each says anything. A counter is mended, and written although nothing is charged, when the clock was
      -- set back or its numbers are no longer those it was written with.
      local fits, costs, s1, s2, s3, n1, n2, s_until, n_until, mended = false, false, 0, 0, 0, 0, 0, 0, 0, false

      if kind <= SLIDING then
        -- A hot key comes many times in one call.
        local value = last_value
        if key ~= last_key then
          value = call('GET', key)
        end
        if value then
          if #value == 24 then
            s1, s2, s3 = read('<ddd', value)
          else
            failed = failed or value.err or NOT_A_COUNTER
          end
        end
        local known = s1 > 0 or s2 > 0 or s3 > 0

        if kind == BUCKET then
          -- include bucket.lua
        elseif kind == FIXED then
          -- include fixed_window.lua
        else
          -- include sliding_window.lua
        end

        passes = passes and (fits or shadow == 1)
        if round == 2 and not failed then
          local charge = (is_refund and known) or (is_spend and passes and fits and costs)
          if charge or mended then
            if charge then
              s_until, value = n_until, pack('<ddd', n1, n2, s3)
            else
              value = pack('<ddd', s1, s2, s3)
            end
            local life = ceil((s_until - now) / 1000)
            failed = call('SET', key, value, 'PX', (life > 0 and life or 0) + AFTERLIFE).err
          end
        end
        last_key, last_value = not failed and key or nil, value
      else
        local held
        if kind == LOG then
          -- include sliding_log.lua
          held = log
        else
          -- include concurrency.lua
          held = leases
        end
        if ask < REFUND then
          fits, costs, s1, s2, s3, at = held.look(key, argument, at)
          passes = passes and (fits or shadow == 1)
          if round == 2 and not failed and is_spend and passes and fits and costs then
            held.charge(key)
          end
        else
          passes, at = held.change(key, argument, at, ask)
        end
      end

      if round == 2 and ask < REFUND then
        replies = replies + 1
        reply[replies] = pack('<ddd', s1, s2, s3)
      end
    end
  end

  if failed then
    replies, reply[answer] = answer, pack('<BH', 2, #failed) .. failed
  else
    reply[answer] = passes and '\1' or '\0'
  end
  keys = keys + count
end
return table.concat(reply, '', 1, replies)
