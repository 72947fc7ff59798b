"""Which workers live, what each says of itself, what the dead held, and which turns are to be enqueued: scripts.

All is told by the clock of Redis. When no worker was heard for longer than a lease, it isn't they that are dead, or not
known to be: Redis was paused or restarted, or its clock has jumped. So the first that is heard again sets all that is
told by the clock anew: who lives has time to say so, and who doesn't is noticed a lease later.
"""

from service.records import HELPERS

QUIET = 5
"""Seconds without any heartbeat that are nothing odd, however short the lease."""

PULSE = """
local function is_odd(now, lease)
  local last = tonumber(redis.call('GET', key('pulse')) or now)
  return now - last > math.max(tonumber(lease), QUIET) or now < last - 1
end
local function begin_anew(now, lease)
  for _, name in ipairs({'claims', 'workers'}) do
    for _, member in ipairs(redis.call('ZRANGE', key(name), 0, -1)) do
      redis.call('ZADD', key(name), now + lease, member)
    end
  end
  for _, id in ipairs(redis.call('SMEMBERS', key('live'))) do
    local turns = part(id, 't')
    for _, turn in ipairs(redis.call('ZRANGE', turns, 0, -1)) do redis.call('ZADD', turns, now, turn) end
  end
  redis.call('DEL', key('recovery'))
end
""".replace("QUIET", str(QUIET))

HEARTBEAT = (
    HELPERS
    + PULSE
    + """
local _, worker, told, lease, id, turn = unpack(ARGV)
local now = clock()
if is_odd(now, lease) then begin_anew(now, lease) end
redis.call('SET', key('pulse'), now)
redis.call('ZADD', key('workers'), now + lease, worker)
redis.call('ZREMRANGEBYSCORE', key('workers'), '-inf', now - 60)
redis.call('SET', key('worker:' .. worker), told, 'EX', math.ceil(lease) + 60)
if id ~= '' then redis.call('ZADD', part(id, 't'), 'XX', now, turn) end
return 1
"""
)
"""prefix, worker, what it says of itself, seconds until it counts as dead, the evaluation and turn in hand."""

RECOVER = (
    HELPERS
    + PULSE
    + """
local _, attempts, lost, cancelled, ttl, lease = unpack(ARGV)
local now, found = clock(), {}
if is_odd(now, lease) then return found end
for _, claim in ipairs(redis.call('ZRANGEBYSCORE', key('claims'), '-inf', now, 'LIMIT', 0, 1000)) do
  local id, index = string.match(claim, '^(%S+) (%d+)$')
  local owner = redis.call('HGET', part(id, 'c'), index)
  redis.call('ZREM', key('claims'), claim)
  if owner then
    redis.call('HDEL', part(id, 'c'), index)
    redis.call('ZREM', part(id, 't'), string.match(owner, '^[^:]*:([^:]*)') or '')
    found[#found + 1] = claim
    if redis.call('HEXISTS', key('e:' .. id), 'cancelled') == 1 then
      count(id, store(id, index, cancelled, ''), ttl)
    elseif tonumber(redis.call('HGET', part(id, 'a'), index)) >= tonumber(attempts) then
      count(id, store(id, index, lost, ''), ttl)
    else
      redis.call('LPUSH', part(id, 'p'), index)
    end
  end
end
return found
"""
)
"""prefix, attempts allowed, judgement of what is lost for good, of what was cancelled, seconds to keep, seconds of a
lease. The turn that claimed (an owner is `worker:turn:number`) is as dead as its worker, and makes room for another.
Where nobody was heard for longer than a lease, nothing is taken back before somebody is."""

COUNT_LIVING = (
    HELPERS
    + """
return redis.call('ZCOUNT', key('workers'), clock(), '+inf')
"""
)
"""prefix. Returns how many workers are alive."""

LIVING = (
    HELPERS
    + """
local told = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', key('workers'), clock(), '+inf')) do
  told[#told + 1] = redis.call('GET', key('worker:' .. worker)) or nil
end
return told
"""
)
"""prefix. Returns what each living worker says of itself."""

NEXT_TURN = (
    HELPERS
    + """
local _, id, ended, fresh = unpack(ARGV)
redis.call('ZREM', part(id, 't'), ended)
if redis.call('ZSCORE', part(id, 't'), fresh) then return 1 end
local pending = redis.call('LLEN', part(id, 'p'))
local workers = math.max(1, redis.call('ZCOUNT', key('workers'), clock(), '+inf'))
if redis.call('ZCARD', part(id, 't')) >= math.min(pending, workers) then return 0 end
redis.call('ZADD', part(id, 't'), clock(), fresh)
return 1
"""
)
"""prefix, id, the turn that ended, the turn that may follow. Returns 1 where it shall be enqueued, however
often it is asked."""

TOP_UP = (
    HELPERS
    + """
local _, id, workers, patience, name = unpack(ARGV, 1, 5)
local now, turns = clock(), part(id, 't')
for at = 6, #ARGV do redis.call('ZADD', turns, 'XX', now, ARGV[at]) end
redis.call('ZREMRANGEBYSCORE', turns, '-inf', now - patience)
local missing = math.min(redis.call('LLEN', part(id, 'p')), tonumber(workers)) - redis.call('ZCARD', turns)
local fresh = {}
for number = 1, missing do
  fresh[number] = name .. '-' .. number
  redis.call('ZADD', turns, now, fresh[number])
end
return fresh
"""
)
"""prefix, id, workers, seconds after which a turn that nobody has seen is lost, a fresh name, turns that are queued….
Returns the turns that shall be enqueued."""
