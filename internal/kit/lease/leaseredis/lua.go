// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leaseredis

// The value of a lease's key is "epoch nonce owner". Lua's numbers are doubles, exact up to 2^53 -
// milliseconds for 285 000 years - and are printed with %.0f because tostring would turn a large
// one into 1e+15.

// ServerLua defines a Lua function that distinguishes the processes of Redis:
//
//	leat_server()
//
// It returns the id of the process that runs the script, which changes with a restart and a
// fail-over, or "-" if Redis does not report it. A value that was written under another id may be
// older than the last acknowledged one. Prepend ServerLua to a script like FenceLua.
const ServerLua = `
local function leat_server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '-'
end
`

// acquireLua takes KEYS lease, epoch, heir, given and ARGV nonce, owner, ttl in ms, floor of the
// epoch, grace in ms, whether it is reclaimed ("1"). It returns the current value of the lease,
// even if it has another owner, and the remaining milliseconds. For a lease that is reserved for
// another owner these are "epoch - heir", because no nonce is "-", and the remaining time of the
// reservation. If the floor was never granted, or another process of Redis granted the last epoch,
// Redis may have lost some of its memory. The lease is then reserved for the heir "", which no
// owner is called, and only a reclaiming owner can acquire it.
//
// An epoch is the time in milliseconds, or the last epoch plus one if that is not less. A forgotten
// epoch was granted earlier, and is therefore lower, even if no process remembers it.
const acquireLua = ServerLua + `
local value = redis.call('GET', KEYS[1])
if not value then
  local heir = redis.call('GET', KEYS[3])
  local reclaimed = ARGV[6] == '1'
  if heir and heir ~= ARGV[2] and not (heir == '' and reclaimed) then
    return {(redis.call('GET', KEYS[2]) or '0') .. ' - ' .. heir, tostring(redis.call('PTTL', KEYS[3]))}
  end
  local server = leat_server()
  local given = redis.call('GET', KEYS[4])
  local last, giver = string.match(given or '0 ' .. server, '^(%d+) (.+)$')
  if tonumber(ARGV[5]) > 0 and not reclaimed and (giver ~= server or tonumber(ARGV[4]) > tonumber(last)) then
    local floor = math.max(tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[4]))
    local digits = string.format('%.0f', floor)
    redis.call('SET', KEYS[2], digits)
    redis.call('SET', KEYS[4], digits .. ' ' .. server)
    redis.call('SET', KEYS[3], '', 'PX', ARGV[5])
    return {digits .. ' - ', ARGV[5]}
  end
  redis.call('DEL', KEYS[3])
  local now = redis.call('TIME')
  local epoch = math.max(
    tonumber(redis.call('GET', KEYS[2]) or '0') + 1, tonumber(ARGV[4]) + 1, now[1] * 1000 + math.floor(now[2] / 1000))
  local digits = string.format('%.0f', epoch)
  value = digits .. ' ' .. ARGV[1] .. ' ' .. ARGV[2]
  redis.call('SET', KEYS[2], digits)
  redis.call('SET', KEYS[4], digits .. ' ' .. server)
  redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
end
return {value, tostring(redis.call('PTTL', KEYS[1]))}
`

// heldLua defines held(key, epoch, owner): whether the lease is exactly this one.
const heldLua = `
local function held(key, epoch, owner)
  local value = redis.call('GET', key)
  if not value then return false end
  local e, o = string.match(value, '^(%d+) %w+ (.*)$')
  return e == epoch and o == owner
end
`

// renewLua takes KEYS lease and ARGV epoch, owner, ttl in ms. It returns 1 if the lease was held,
// which it has extended.
const renewLua = heldLua + `
if not held(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
`

// releaseLua takes KEYS lease and ARGV epoch, owner. It returns 1 if the lease was held, which it
// has ended.
const releaseLua = heldLua + `
if not held(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
return redis.call('DEL', KEYS[1])
`

// bequeathLua takes KEYS lease, heir and ARGV epoch, owner, heir, reservation in ms. It returns 1
// if the lease was held, which it has reserved.
const bequeathLua = heldLua + `
if not held(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return redis.call('DEL', KEYS[1])
`

// FenceLua defines a Lua function for the scripts of adapters that write under a lease:
//
//	leat_fence(epoch_key, epoch)
//
// with the key that [EpochKey] names, which must be among the script's KEYS, and the writer's epoch
// as decimal digits. It returns true if the write may proceed, and false if a newer epoch has been
// granted and the writer must stop. If the counter is behind the writer's epoch, because Redis has
// lost it, the function raises it. Prepend FenceLua to the script:
//
//	redis.NewScript(leaseredis.FenceLua + `if not leat_fence(KEYS[1], ARGV[1]) then return redis.error_reply('STALE') end …`)
const FenceLua = `
local function leat_fence(epoch_key, epoch)
  local last = tonumber(redis.call('GET', epoch_key) or '0')
  local mine = tonumber(epoch)
  if mine < last then return false end
  if mine > last then redis.call('SET', epoch_key, string.format('%.0f', mine)) end
  return true
end
`
