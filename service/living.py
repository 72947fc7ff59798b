"""Which workers live, what each says of itself, and which turns are to be enqueued for them: scripts of the record."""

from service.records import HELPERS

HEARTBEAT = (
    HELPERS
    + """
local _, worker, told, lease, id, turn = unpack(ARGV)
local now = clock()
redis.call('ZADD', key('workers'), now + lease, worker)
redis.call('ZREMRANGEBYSCORE', key('workers'), '-inf', now - 60)
redis.call('SET', key('worker:' .. worker), told, 'EX', math.ceil(lease) + 60)
if id ~= '' then redis.call('ZADD', part(id, 't'), 'XX', now, turn) end
return 1
"""
)
"""prefix, worker, what it says of itself, seconds until it counts as dead, the evaluation and turn in hand."""

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
local pending = redis.call('LLEN', part(id, 'p'))
local workers = math.max(1, redis.call('ZCOUNT', key('workers'), clock(), '+inf'))
if redis.call('ZCARD', part(id, 't')) >= math.min(pending, workers) then return 0 end
redis.call('ZADD', part(id, 't'), clock(), fresh)
return 1
"""
)
"""prefix, id, the turn that ended, the turn that may follow. Returns 1 where it shall be enqueued."""

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
