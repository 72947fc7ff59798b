"""Which workers live, and what each says of itself: what it runs, and which turn it has in hand."""

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
