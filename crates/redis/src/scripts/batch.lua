-- Decides a batch of store calls, one after the other. The same time applies to all of them.
--
-- KEYS:  for each call the counters of its demands, in order; then for each demand, if it has them,
--        the two keys of its reservations, in a settlement the mark that remembers it, and its
--        lockout.
-- ARGV:  ARGV[1] begins with a byte that is 1 if a key may occur more than once in KEYS, else 0.
--        After it is one byte for each call: the index of its arguments, where 1 means ARGV[2].
--        Calls about the same limit usually share their arguments. The other elements of ARGV are
--        the arguments of calls:
--          operation   1 spend, 2 peek, 3 refund, 4 release, 5 renew, 6 lease call, 7 reset,
--                      8 count (charge whether it fits or not), 9 reserve (spend, and remember it),
--                      10 settle, 11 inspect (peek, and tell what the counters contain), 12 refuse
--                      (peek, and count denials towards lockouts)
--          count       number of demands (2 bytes)
--          of a reservation or settlement, how long it is remembered (a double, microseconds) and
--          the id of the reservation (16 bytes)
--          of a settlement, how the reservation ends: 1 settled, 2 cancelled, 3 undone (nothing
--          remembers it); 4 more if another counter has shown that it was open
--          and for each demand
--            algorithm   1 bucket, 2 fixed window, 3 sliding window, 4 sliding log, 5 concurrency
--            flags       the sum of 1 if the demand never denies, 2 if its reservations are needed,
--                        4 if what they have charged is returned when they expire, 8 if the
--                        limit has a lockout
--            numbers     see "Numbers" in the file of the algorithm, in reservations.lua and in
--                        lockout.lua
--        each of which is a byte unless noted, except for the numbers, which are doubles. A lease call has one
--        demand, and after it the numbers of the lease (see lease.lua). A reset has one counter,
--        the keys of its reservations and its lockout, and nothing after its count. The first
--        demand of a settlement decides how the reservation ends, and the others follow.
-- Reply: one string: the time, and for each call
--          status      1 allowed or done, 0 denied or not found, 2 error
--          for an error, the index of the demand, the length (2 bytes each) and the text; the call
--          has changed nothing, except that a settlement may have settled the demands before. An
--          error MALFORMED means that another program has written to a key: the keys
--          of the demand were deleted. BOUND means that a bound of ours was reached.
--          for each demand of a spend, peek, count, reservation or lease call three numbers: the
--          state of the counter before the charge (see "Reply" in the file of the algorithm). If
--          a demand is only counted and does not fit, the state after the charge.
--          for each demand on a limit with a lockout three more numbers, after its state (see
--          lockout.lua)
--          for a lease call four more numbers (see lease.lua)
--          for each demand of a settlement what was known of the reservation (0 unknown, 1 open, 3
--          it has ended before), how it has ended (1 settled, 2 cancelled; a byte each), and the
--          units that it has charged in all
--          for each demand of an inspection four more numbers, after these: how many
--          reservations are open, the units that they have charged, the units on lease, and the
--          time of the oldest hit of a log (0 if there is none)
--
-- The script creates no functions for common calls, and only tables that all calls share: creating
-- functions for each batch took three times as long as deciding. Arguments that are the same as
-- those of the previous call are not parsed again. A line with `include` is replaced by the file that it names.

-- include time.lua

-- A clock that goes back by at most this many microseconds was not set back; counters then keep
-- their times.
local SLACK = 1000000
-- The bytes of a counter that has been leased, without its generations (see lease.lua).
local LEASED = 80
-- The store counts a lease for its length and this many microseconds more, in case the clock jumps
-- ahead.
local LEASE_MARGIN = 100000
-- No generation ends later than this.
local GENERATION_MAX = 2 * 16000000 + LEASE_MARGIN
-- The longest time until the turn of an instance (see grant.lua).
local TURN_MAX = 5000000
-- Integers up to this number are exact.
local EXACT = 9007199254740992
-- A bucket owes at most what it works off in this time (100 years).
local RECOVERY_MAX = 100 * 366 * 86400 * 1000000
local SPEND, PEEK, REFUND, RENEW, LEASE_CALL, RESET, COUNT = 1, 2, 3, 5, 6, 7, 8
local RESERVE, SETTLE, INSPECT, REFUSE = 9, 10, 11, 12
-- What is known of a reservation that is to be settled, and the end that no mark remembers.
local UNKNOWN, OPEN, REPEATED, UNDONE = 0, 1, 3, 3
local BUCKET, FIXED, SLIDING, LOG = 1, 2, 3, 4
local NOT_A_COUNTER = 'MALFORMED the key does not hold a counter'
local TOO_MANY = 'BOUND too many open reservations of one counter'

-- Locals are faster than globals.
local KEYS, ARGV = KEYS, ARGV
local call, pack, read, byte, ceil = redis.pcall, struct.pack, struct.unpack, string.byte, math.ceil
local sub, rep, floor = string.sub, string.rep, math.floor
-- The budget of the script for what has expired: so many hits of logs may be dropped or moved. A
-- permit or a reservation that is ended takes more of it. What has expired and is not ended still
-- counts. What phase 1 of a call has taken from the budget for phase 2. And how many hits and
-- permits may be searched for the time when enough of them have expired.
local sweep_left, sweep_planned, search_left = 8192, 0, 8192
local UNUSED = pack('<ddd', 0, 0, 0)
-- Functions and modules that are created when they are needed.
local scaled, next_month, run, write, expire_at, is_whole, verify
local log, permits, reservations, lockout
-- The first error of the current call, and the index of its demand, counted from 0.
local failed, faulty
local reply, replies = { pack('<d', now) }, 1
local key_offset = 0
-- If a key may occur more than once: what counters contain now, by key; and the counters that have
-- been written, with their expiry if they must be written again at the end, else false.
local values, postponed
-- The arguments of the current call, and what they contain; the numbers are those of the last
-- demand.
local arguments, operation, count, first_demand, is_spend, is_refund, is_lease_call, kind, shadow
local is_count, is_inspection, has_states, has_hash, is_released, ttl, id, ending, was_open
-- Of a limit with a lockout: whether denials are counted, the numbers of the last demand, and what
-- the reply says of its lockout.
local counts_denials, has_lockout, lock_after, lock_within, lock_for, lock_factor, lock_max
local lock_reply
-- What reservations.lua has read and found out about the demand, and the last of the call's keys
-- that are used.
local has_extras, most, most_part, reserved, more, given, has_reservations, known, is_full
local extra_keys
-- Of a settlement: how the reservation has ended at this counter and at the first one, the units
-- that it has charged in all, and of the last charge those that the counter may owe, if not all.
local ended_as, decided_as, charged_units, applied
-- If the call has several demands: the numbers of each.
local numbers
-- What phase 1 found out about each of several demands: the value that it charges (or false), and
-- when that becomes meaningless.
local charged, charged_until
local limit, cost, unit, length, whole, whole_part, cost_part, per, span
local needed, wanted, is_leased, generation, held, keep, back, back_part, period
local called_at, long, brief, spacing

local order = ARGV[1]
if byte(order) == 1 then
  values, postponed = {}, {}
end
for index = 2, #order do
  local has_new_arguments = has_extras or ARGV[1 + byte(order, index)] ~= arguments
  if has_new_arguments then
    arguments = ARGV[1 + byte(order, index)]
    operation, count, first_demand = read('<BH', arguments)
    is_inspection = operation == INSPECT
    counts_denials = operation == SPEND or operation == RESERVE or operation == REFUSE
    operation = (is_inspection or operation == REFUSE) and PEEK or operation
    is_lease_call, is_refund = operation == LEASE_CALL, operation == REFUND
    is_count = operation == COUNT or operation == SETTLE
    is_spend = is_lease_call or operation == SPEND or operation >= COUNT
    has_states = operation < REFUND or operation == COUNT or operation == RESERVE
    if operation > COUNT then
      ttl, id, first_demand = read('<dc16', arguments, first_demand)
    end
    if operation == SETTLE then
      ending, first_demand = read('<B', arguments, first_demand)
      was_open = ending > 4
      ending = was_open and ending - 4 or ending
    end
    -- What another call has found out about its reservations does not concern this one.
    has_extras, given, has_reservations = is_count, nil, nil
    if count > 1 then
      numbers, charged, charged_until = {}, {}, {}
    end
  end

  local status = replies + 1
  replies = status
  local is_allowed, is_remembered

  -- Several demands are first all examined (phase 1) and then charged (phase 2). A single demand is
  -- examined and charged in phase 2. What phase 1 has found out is remembered, unless a counter is a
  -- log or has permits or reservations, or must be corrected; then all demands are examined again.
  local first_phase = count > 1 and operation ~= SETTLE and 1 or 2
  failed, faulty, decided_as, is_allowed = nil, nil, nil, true
  is_remembered = first_phase == 1 and operation ~= RESERVE
  extra_keys = key_offset + count
  if operation == RESET then
    local key = KEYS[key_offset + 1]
    extra_keys = extra_keys + 3
    local deleted = call('UNLINK', key, KEYS[extra_keys - 2], KEYS[extra_keys - 1], KEYS[extra_keys])
    failed, first_phase = type(deleted) == 'table' and deleted.err, 3
    if values and not failed then
      values[key], postponed[key] = nil, nil
    end
  end
  for phase = first_phase, 2 do
    if phase == 2 and is_remembered then break end
    if phase == 2 then
      sweep_left, sweep_planned = sweep_left + sweep_planned, 0
    end
    local at = first_demand
    extra_keys = key_offset + count
    replies = status
    for i = 1, count do
      local key = KEYS[key_offset + i]
      local is_new = has_new_arguments or count > 1
      local first_at, first_extra, is_restarted = at, extra_keys, false
      -- A shadow limit never denies: if its counter is malformed, the demand is examined again with
      -- an empty one.
      while true do
      at, extra_keys = first_at, first_extra
      if is_new then
        kind, shadow = byte(arguments, at, at + 1)
        has_lockout = shadow > 7
        if has_lockout then
          -- include lockout.lua
        end
        has_hash, is_released, shadow = shadow % 4 > 1, shadow % 8 > 3, shadow % 2
        has_extras = has_extras or has_hash
        at = at + 2
      end
      local extra = extra_keys
      extra_keys = extra + (has_hash and 2 or 0) + (has_lockout and 1 or 0)
      if operation == SETTLE then
        extra_keys = extra_keys + 1
      end
      is_full, applied = false, nil

      -- fits, has_cost: whether the demand fits, and whether it costs anything.
      -- s1, s2, s3, s_until: the state of the counter now, and when it becomes meaningless.
      -- n1, n2, n3, n_until: the same for the new state if the demand is charged. s3 stays if
      -- there is no n3.
      -- is_corrected: the state must be written even if nothing is charged, because the clock was
      -- set back or the quota has changed.
      -- unchanged: the stored bytes of s1, s2, s3. Nil if they must be packed again.
      local fits, has_cost, n1, n2, n3, s_until, n_until, is_corrected, unchanged
      local s1, s2, s3 = 0, 0, 0
      -- The leases of a counter (see lease.lua). Nil unless it has been leased.
      local has_leases, out, slice, callers, callers_before, turn, lease_period, lease_per
      local generations, leases_until
      -- Of a bucket with reservations: the time for which its leased units count, and when it is at
      -- rest without them and before the demand.
      local leased_time, rest, rest_part, is_rest_in_debt
      -- The result of a lease call: units granted, generation, whether the units held before are
      -- still known, length of the lease, time until the turn of the instance.
      local units, lease_generation, is_kept, lease_length, turn_after
      if is_lease_call then
        out, slice, callers, callers_before, turn, lease_period, lease_per = 0, 0, 0, 0, 0, 1, 1
        units, lease_generation, lease_length, turn_after = 0, 0, 0, 0
      end

      if kind <= SLIDING then
        local value = values and values[key]
        if value == nil then
          value = call('GET', key)
          if values then
            values[key] = value
          end
        end

        if not value then
          unchanged = UNUSED
        else
          local is_valid = #value == 24
          if is_valid then
            s1, s2, s3 = read('<ddd', value)
            unchanged = value
          elseif #value == LEASED or (#value > LEASED and kind == BUCKET) then
            -- include leased.lua
          end
          if not is_valid
            or not (s1 >= 0 and s1 <= EXACT and s2 >= 0 and s2 <= EXACT)
            or not (s3 > -EXACT and s3 < EXACT)
            or s1 % 1 > 0 or s2 % 1 > 0 or s3 % 1 > 0 then
            failed, s1, s2, s3 = failed or value.err or NOT_A_COUNTER, 0, 0, 0
            unchanged, has_leases, generations = UNUSED, nil, nil
            if is_lease_call then
              out, slice, callers, callers_before, turn = 0, 0, 0, 0, 0
              lease_period, lease_per = 1, 1
            end
          end
        end
        local exists = value

        if kind == BUCKET then
          -- include bucket.lua
        elseif kind == FIXED then
          -- include fixed_window.lua
        else
          -- include sliding_window.lua
        end

        if has_lockout then
          if is_new then
            lock_after, lock_within, lock_for, lock_factor, lock_max, at =
              read('<ddddd', arguments, at)
          end
          is_remembered = false
          fits = lockout.decide(KEYS[extra_keys], fits, has_cost, counts_denials, phase == 2)
        end

        fits = fits and not is_full
        is_allowed = is_allowed and (fits or shadow == 1)
        local is_charged = (is_refund and exists)
          or (is_spend and is_allowed and fits and (has_cost or (units or 0) > 0))
          or (is_count and has_cost)
        if operation == SETTLE and not given and not is_charged then
          is_corrected = false
        end
        local is_written = not failed and (is_charged or is_corrected)
        if is_written then
          if is_charged then
            s_until, value = n_until, pack('<ddd', n1, n2, n3 or s3)
          else
            value = pack('<ddd', s1, s2, s3)
          end
          if has_leases then
            value = value
              .. pack('<ddddddd', out, slice, callers, callers_before, turn, lease_period, lease_per)
          end
          if generations then
            value = value .. pack('<' .. rep('d', #generations), unpack(generations))
            s_until = s_until < leases_until and leases_until or s_until
          end
        end
        if phase == 1 then
          charged[i], charged_until[i] = is_written and value, s_until
          is_remembered = is_remembered and not (is_corrected or given or has_reservations)
        elseif is_written then
          -- include write.lua
          local window = kind == FIXED and n2 or s3
          if has_hash and kind == BUCKET and not failed then
            if is_charged and (operation >= RESERVE or is_refund) then
              window = reservations.record(n1 - leased_time, n2, n3 < 0, operation == RESERVE)
            elseif given then
              reservations.record(rest, rest_part, is_rest_in_debt)
            end
          end
          if has_hash and is_charged and not failed then
            if operation == RESERVE then
              reservations.add(window, n_until)
            elseif has_reservations and operation ~= SETTLE then
              reservations.keep(s_until)
            end
          end
        end
        if is_count and has_cost and not fits then
          s1, s2, s3, unchanged = n1, n2, n3 or s3, nil
        end
      else
        local counter
        is_remembered = false
        if kind == LOG then
          -- include sliding_log.lua
          counter = log
        else
          -- include concurrency.lua
          counter = permits
        end
        local numbers_at = is_new and at or first_demand + 2
        at = numbers_at + (kind == LOG and 24 or 40)
        if has_extras then
          -- include prepare.lua
        end

        -- Called with pcall, because a key that another program has written must not fail the whole
        -- batch.
        local is_valid, result = true, nil
        if has_states then
          is_valid, fits, has_cost, s1, s2, s3 = pcall(counter.examine, key, arguments, numbers_at)
          if has_lockout then
            if is_new then
              lock_after, lock_within, lock_for, lock_factor, lock_max, at =
                read('<ddddd', arguments, at)
            end
            if is_valid then
              fits = lockout.decide(KEYS[extra_keys], fits, has_cost, counts_denials, phase == 2)
            end
          end
          fits = fits and not is_full
          is_allowed = is_allowed and (shadow == 1 or (is_valid and fits))
          local is_charged = is_spend and has_cost and (is_count or (is_allowed and fits))
          if phase == 2 and not failed and is_charged then
            local charged_at, counted_until
            is_valid, charged_at, counted_until = pcall(counter.charge, key)
            if is_valid and not fits then
              is_valid, fits, has_cost, s1, s2, s3 = pcall(counter.examine, key, arguments, numbers_at)
            end
            if is_valid and has_hash and operation == RESERVE then
              reservations.add(charged_at, counted_until)
            elseif is_valid and has_reservations then
              reservations.keep(counted_until)
            end
          end
        elseif phase == 1 then
          -- Finds errors before anything is written. Permits are not changed by a refund.
          if kind == LOG then
            is_valid, result = pcall(counter.examine, key, arguments, numbers_at)
          end
        elseif not failed then
          is_valid, result = pcall(counter.change, key, arguments, numbers_at, operation)
          is_allowed = is_valid and result
        end

        if not is_valid then
          failed, s1, s2, s3 = failed or NOT_A_COUNTER, 0, 0, 0
        end
      end

      local is_done = true
      if failed and not faulty then
        -- include malformed.lua
      end
      if is_done then
      if has_states then
        replies = replies + 1
        reply[replies] = unchanged or pack('<ddd', s1, s2, s3 < 0 and -s3 or s3)
        if has_lockout then
          replies = replies + 1
          reply[replies] = lock_reply
        end
        if is_inspection then
          replies = replies + 1
          local open = has_hash and reservations.open or 0
          local open_units = has_hash and reservations.units or 0
          local oldest = kind == LOG and log.oldest or 0
          reply[replies] = pack('<dddd', open, open_units, out or 0, oldest)
        end
      elseif is_lease_call then
        replies = replies + 1
        reply[replies] = (unchanged or pack('<ddd', s1, s2, s3 < 0 and -s3 or s3))
          .. pack(
            '<dddd',
            units,
            is_kept and lease_generation or -1 - lease_generation,
            lease_length,
            turn_after
          )
      elseif operation == SETTLE then
        if applied and applied ~= more and not failed then
          reservations.correct_charge(applied, KEYS[extra_keys])
        end
        if not decided_as then
          decided_as, was_open = ended_as, was_open or known ~= UNKNOWN
        end
        replies = replies + 1
        reply[replies] = pack('<BBd', known, ended_as, charged_units)
      end

      break
      end
      end
    end
  end

  if is_remembered and (is_allowed or is_refund or is_count) then
    for i = 1, count do
      local key, value, s_until = KEYS[key_offset + i], charged[i], charged_until[i]
      if value and not failed then
        -- include write.lua
      end
    end
  end

  if failed then
    replies = status
    reply[status] = pack('<BHH', 2, faulty or 0, #failed) .. failed
  else
    reply[status] = is_allowed and '\1' or '\0'
  end
  key_offset = extra_keys
end

if postponed then
  for key, expiry in pairs(postponed) do
    if expiry then
      redis.call('SET', key, values[key], 'PX', expiry)
    end
  end
end
return table.concat(reply, '', 1, replies)
