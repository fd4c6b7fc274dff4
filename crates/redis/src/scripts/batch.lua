-- Decides about requests, one after the other, at one moment.
--
-- KEYS:  the counters of every check of every request, in order.
-- ARGV:  first a byte for each request, which of the others is its question: 1 is the one after this. A question says
--        what is asked (1 spend, 2 peek, 3 refund, 4 release, 5 renew, 6 take), how many checks, and for each check its
--        algorithm (1 bucket, 2 fixed, 3 sliding, 4 log, 5 leases), 1 if it is a shadow, and its numbers (see the
--        algorithm). A take is a spend of one check with more numbers (see lease.lua). Requests about the same limit
--        usually ask the same question.
-- Reply: one string: the moment, then for each request 1 if it passed (or, for what is no question, was done), 0 if not,
--        and for each check of a spend, peek or take three numbers (see what the algorithm tells), of a take two more; or
--        2, the length of an error and the error: then the request has changed nothing.
--
-- There are no functions on the way of the usual request, and no tables but the reply: making them anew for every call
-- took three times as long as deciding. What is the same as last time is not read again. A line that says `include`
-- stands for the file it names.

-- include time.lua

-- Within this many microseconds a clock that goes back stands still instead: it was not set.
local SLACK = 1000000
-- A lease belongs to the generation under way when it was given, which takes in others for this long, and has certainly
-- ended when that is over for as long.
local GENERATION = 1000000
local OUT_FOR = 2 * GENERATION
-- Up to here every integer is exact.
local EXACT = 9007199254740992
local SPEND, REFUND, RENEW, TAKE = 1, 3, 5, 6
local BUCKET, FIXED, SLIDING, LOG = 1, 2, 3, 4
local NOT_A_COUNTER = 'ERR the key holds something that is not a counter'

local call, pack, read, byte, ceil = redis.pcall, struct.pack, struct.unpack, string.byte, math.ceil
local UNUSED = pack('<ddd', 0, 0, 0)
-- Made when they are needed.
local scaled, next_month, ask_server, put, log, leases
-- The first error that the request under way has met.
local failed
local reply, replies = { pack('<d', now) }, 1
local keys = 0
-- The counter asked about last, and what it holds.
local last_key, last_value
-- The question under way, and what it says; the numbers are those of its last check.
local question, ask, count, first, is_spend, is_refund, is_take, kind, shadow
local limit, cost, unit, length, whole, whole_part, cost_part, per, span
local most, is_lent, generation, held, keep, back, back_part, period

local order = ARGV[1]
for request = 1, #order do
  local is_other = ARGV[1 + byte(order, request)] ~= question
  if is_other then
    question = ARGV[1 + byte(order, request)]
    ask, count, first = read('<BB', question)
    is_take = ask == TAKE
    is_spend, is_refund = is_take or ask == SPEND, ask == REFUND
  end
  local passes, answer = true, replies + 1
  replies, failed = answer, nil

  -- Several checks are all looked at before any is settled; a single one is settled at once.
  for round = count > 1 and 1 or 2, 2 do
    local at = first
    for i = 1, count do
      local key = KEYS[keys + i]
      local is_new = is_other or count > 1
      if is_new then
        kind, shadow, at = read('<BB', question, at)
      end
      -- Whether the check may pass, whether it costs anything, the counter as seen, the counter if it is charged, and
      -- until when each says anything. A counter is mended, and written although nothing is charged, when the clock was
      -- set back or its numbers are no longer those it was written with. `told` is nil when it must be written anew.
      local fits, costs, s1, s2, s3, n1, n2, s_until, n_until, mended = false, false, 0, 0, 0, 0, 0, 0, 0, false
      local told
      -- What is out on lease of a bucket (see lease.lua); what a take is given, the name of that, whether it kept what it had.
      local is_out, young, young_out, old, old_out, out_period, out_per, out_until = false, 0, 0, 0, 0, 1, 1, 0
      local units, name, is_kept = 0, 0, false

      if kind <= SLIDING then
        -- A hot key comes many times in one call.
        local value = last_value
        if key ~= last_key then
          value = call('GET', key)
        end
        if not value then
          told = UNUSED
        elseif #value == 24 then
          s1, s2, s3 = read('<ddd', value)
          told = value
        elseif #value == 72 and kind == BUCKET then
          s1, s2, s3, young, young_out, old, old_out, out_period, out_per = read('<ddddddddd', value)
          is_out, told = true, nil
        else
          failed = failed or value.err or NOT_A_COUNTER
        end
        local known = value

        if kind == BUCKET then
          -- include bucket.lua
        elseif kind == FIXED then
          -- include fixed_window.lua
        else
          -- include sliding_window.lua
        end

        passes = passes and (fits or shadow == 1)
        if round == 2 and not failed then
          local charge = (is_refund and known) or (is_spend and passes and fits and (costs or units > 0))
          if charge or mended then
            if charge then
              s_until, value = n_until, pack('<ddd', n1, n2, s3)
            else
              value = pack('<ddd', s1, s2, s3)
            end
            if is_out then
              value = value .. pack('<dddddd', young, young_out, old, old_out, out_period, out_per)
              s_until = s_until < out_until and out_until or s_until
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
        at = is_new and at or first + 2
        -- What somebody else has written there must not end the whole call.
        local is_sound, sound = true, nil
        if ask < REFUND then
          is_sound, fits, costs, s1, s2, s3 = pcall(held.look, key, question, at)
          passes = is_sound and passes and (fits or shadow == 1)
          if round == 2 and not failed and is_spend and passes and fits and costs then
            is_sound, sound = pcall(held.charge, key)
          end
        elseif round == 1 then
          -- A refund leaves leases alone.
          if kind == LOG then
            is_sound, sound = pcall(held.look, key, question, at)
          end
        elseif not failed then
          is_sound, sound = pcall(held.change, key, question, at, ask)
          passes = is_sound and sound
        end
        if not is_sound then
          failed = failed or NOT_A_COUNTER
        end
        at = at + (kind == LOG and 24 or 40)
      end

      if round == 2 and ask < REFUND then
        replies = replies + 1
        reply[replies] = told or pack('<ddd', s1, s2, s3)
      elseif is_take and round == 2 then
        replies = replies + 1
        reply[replies] = (told or pack('<ddd', s1, s2, s3)) .. pack('<dd', units, is_kept and name or -1 - name)
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
