// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisroute

import "github.com/leatdev/leat/internal/kit/lease/leaseredis"

const (
	// replicasKey is the sorted set of replicas, by the time in milliseconds until which each
	// counts as alive.
	replicasKey = Prefix + "replicas"
	// urlsKey is the hash from replicas to "server url": the Redis process that was told last, and
	// where the replica is.
	urlsKey = Prefix + "urls"
	// channel is where new routes are announced, as "epoch json".
	channel = Prefix + "announcements"
)

// routesKey is the hash from a cluster's routes to "epoch replica json".
func routesKey(cluster string) string { return Prefix + "routes:" + cluster }

// liveLua defines live(replicas, replica): whether it counts as alive. Times are by the server's
// clock.
const liveLua = `
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local function live(replicas, replica)
  local deadline = redis.call('ZSCORE', replicas, replica)
  return deadline and tonumber(deadline) > now
end
`

// publishLua takes KEYS replicas and ARGV prefix, age of routes in ms, channel, and then of each
// route cluster, id, epoch or "0", replica, details, announcement. It returns the epochs.
//
// An epoch is the time in microseconds, or one more than the cluster's last where that is not less:
// so it also orders routes that are restored after Redis has lost everything.
const publishLua = liveLua + `
local epochs = {}
for i = 4, #ARGV, 6 do
  local cluster, id, epoch, replica, details, announcement =
    ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  local key = ARGV[1] .. 'routes:' .. cluster
  local rows = redis.call('HGETALL', key)
  local last, mine = 0, nil
  for j = 1, #rows, 2 do
    local e, r = string.match(rows[j + 1], '^(%d+) (%S+) ')
    if rows[j] == id then
      mine = e
    elseif r ~= replica and not live(KEYS[1], r) then
      redis.call('HDEL', key, rows[j])
    end
    last = math.max(last, tonumber(e))
  end
  local fresh = not mine and epoch == '0'
  if mine then
    epoch = mine
  elseif fresh then
    epoch = string.format('%.0f', math.max(micros, last + 1))
  end
  redis.call('HSET', key, id, epoch .. ' ' .. replica .. ' ' .. details)
  redis.call('PEXPIRE', key, ARGV[2])
  if fresh then redis.call('PUBLISH', ARGV[3], epoch .. ' ' .. announcement) end
  epochs[#epochs + 1] = epoch
end
return epochs
`

// renewLua takes KEYS replicas, urls and ARGV replica, url, age in ms. It returns 1 when the
// replica counted as alive and no other process of Redis has taken over since; one that has may
// never have heard of some routes.
const renewLua = leaseredis.ServerLua + liveLua + `
local value = leat_server() .. ' ' .. ARGV[2]
local kept = live(KEYS[1], ARGV[1]) and redis.call('HGET', KEYS[2], ARGV[1]) == value
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('ZREM', KEYS[1], dead)
  redis.call('HDEL', KEYS[2], dead)
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], value)
redis.call('PEXPIRE', KEYS[1], ARGV[3] * 2)
redis.call('PEXPIRE', KEYS[2], ARGV[3] * 2)
return kept and 1 or 0
`

// lookupLua takes KEYS replicas, urls, routes. It returns id, epoch, replica, url and details of
// each route that counts.
const lookupLua = liveLua + `
local rows, found = redis.call('HGETALL', KEYS[3]), {}
for j = 1, #rows, 2 do
  local epoch, replica, details = string.match(rows[j + 1], '^(%d+) (%S+) (.*)$')
  local url = redis.call('HGET', KEYS[2], replica)
  if url and live(KEYS[1], replica) then
    for _, field in ipairs({rows[j], epoch, replica, url, details}) do found[#found + 1] = field end
  else
    redis.call('HDEL', KEYS[3], rows[j])
  end
end
return found
`

// listLua takes KEYS replicas, urls. It returns id and url of each replica that counts as alive.
const listLua = liveLua + `
local found = {}
for _, replica in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now), '+inf')) do
  local url = redis.call('HGET', KEYS[2], replica)
  if url then
    found[#found + 1] = replica
    found[#found + 1] = url
  end
end
return found
`
