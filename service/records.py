"""The record of an evaluation in Redis: its keys, and the only scripts that change it.

The record is the truth; RQ only carries turns. Each script is one atomic step, so any number of API processes and
workers may run them at once and die between any two. The steps of a submission:

    pending ─claim─► claimed (a lease that its worker renews) ─store─► judged; the first result written stays
       ▲                │
       └──give back─────┴─lease ran out (counted as an attempt; after too many: `internal_error`, `worker_lost`)

Keys, all under the queue's name:

    e:<id>     hash    body, total, done, state, cancelled
    e:<id>:p   list    indexes that wait                     e:<id>:s   hash    index → submission, until it's judged
    e:<id>:c   hash    index → who claimed it                e:<id>:a   hash    index → attempts
    e:<id>:r   hash    index → judgement                     e:<id>:f   hash    index → all its tests
    e:<id>:t   zset    turn → when last seen alive           e:<id>:u   set     suites that it needs
    claims     zset    "<id> <index>" → end of the lease     live       set     evaluations that aren't done
    unfinished int     submissions not yet judged            events     stream  ids of evaluations that are done
    workers    zset    worker → end of its lease             worker:<name>      what it runs, as JSON
    suites     zset    suite → last use                      suite:<id>[:…]     see `suite_store.py`
"""

from dataclasses import dataclass

EVENTS_KEPT = 10_000
"""A waiter looks at the record before and after it waits, so a trimmed event costs nothing but a little time."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of what is in Redis."""

    queue: str

    @property
    def prefix(self) -> str:
        """What every key of ours starts with."""
        return f"{self.queue}:"

    def of(self, name: str) -> str:
        """The key `name`."""
        return self.prefix + name

    def evaluation(self, id: str, part: str = "") -> str:
        """The key of an evaluation's record, or of a part of it."""
        return f"{self.prefix}e:{id}:{part}" if part else f"{self.prefix}e:{id}"


_HELPERS = """
local prefix = ARGV[1]
local function key(name) return prefix .. name end
local function part(id, name) return prefix .. 'e:' .. id .. ':' .. name end
local function clock() local t = redis.call('TIME') return t[1] + t[2] / 1000000 end
local function finish(id, ttl)
  local e = key('e:' .. id)
  redis.call('HSET', e, 'state', 'done')
  redis.call('SREM', key('live'), id)
  for _, suite in ipairs(redis.call('SMEMBERS', part(id, 'u'))) do
    redis.call('SREM', key('suite:' .. suite .. ':refs'), id)
    redis.call('ZADD', key('suites'), 'XX', clock(), suite)
  end
  redis.call('DEL', part(id, 'p'), part(id, 's'), part(id, 'c'), part(id, 'a'), part(id, 't'), part(id, 'u'))
  for _, name in ipairs({'r', 'f'}) do redis.call('EXPIRE', part(id, name), ttl) end
  redis.call('EXPIRE', e, ttl)
  redis.call('XADD', key('events'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'id', id)
end
local function store(id, index, judgement, tests, ttl)
  if redis.call('HSETNX', part(id, 'r'), index, judgement) == 0 then return 0 end
  if tests ~= '' then redis.call('HSET', part(id, 'f'), index, tests) end
  redis.call('HDEL', part(id, 's'), index)
  redis.call('HDEL', part(id, 'c'), index)
  redis.call('ZREM', key('claims'), id .. ' ' .. index)
  redis.call('DECR', key('unfinished'))
  local e = key('e:' .. id)
  if redis.call('HINCRBY', e, 'done', 1) >= tonumber(redis.call('HGET', e, 'total')) then finish(id, ttl) end
  return 1
end
""".replace("EVENTS_KEPT", str(EVENTS_KEPT))

ACCEPT = (
    _HELPERS
    + """
local _, id, body, bound, turn_count, suite_count = unpack(ARGV, 1, 6)
local e = key('e:' .. id)
local known = redis.call('HGET', e, 'body')
if known then return {known == body and 'known' or 'conflict'} end
local at = 7
local turns, suites, missing = {}, {}, {}
for _ = 1, turn_count do turns[#turns + 1] = ARGV[at]; at = at + 1 end
for _ = 1, suite_count do
  local suite = ARGV[at]; at = at + 1
  suites[#suites + 1] = suite
  if redis.call('EXISTS', key('suite:' .. suite)) == 0 then missing[#missing + 1] = suite end
end
if #missing > 0 then return {'missing', unpack(missing)} end
local total = #ARGV - at + 1
local unfinished = tonumber(redis.call('GET', key('unfinished')) or 0)
if unfinished + total > tonumber(bound) then return {'full', unfinished} end
for index = 0, total - 1 do
  redis.call('HSET', part(id, 's'), index, ARGV[at + index])
  redis.call('RPUSH', part(id, 'p'), index)
end
local now = clock()
for _, turn in ipairs(turns) do redis.call('ZADD', part(id, 't'), now, turn) end
for _, suite in ipairs(suites) do
  redis.call('SADD', part(id, 'u'), suite)
  redis.call('SADD', key('suite:' .. suite .. ':refs'), id)
  redis.call('ZADD', key('suites'), now, suite)
end
redis.call('HSET', e, 'body', body, 'total', total, 'done', 0, 'state', 'queued')
redis.call('SADD', key('live'), id)
redis.call('INCRBY', key('unfinished'), total)
return {'accepted'}
"""
)
"""prefix, id, hash of the body, queue bound, number of turns and of suites, turns…, suites…, submissions…"""

CANCEL = (
    _HELPERS
    + """
local _, id, judgement, ttl = unpack(ARGV)
local e = key('e:' .. id)
local state = redis.call('HGET', e, 'state')
if not state then return 0 end
if state == 'done' then return 1 end
redis.call('HSET', e, 'cancelled', 1)
while true do
  local index = redis.call('LPOP', part(id, 'p'))
  if not index then break end
  store(id, index, judgement, '', ttl)
end
return 1
"""
)
"""prefix, id, judgement of what is dropped, seconds to keep it. Returns 0 where there is no such evaluation."""

CLAIM = (
    _HELPERS
    + """
local _, id, owner, lease = unpack(ARGV)
local e = key('e:' .. id)
if redis.call('HEXISTS', e, 'cancelled') == 1 then return {} end
local index = redis.call('LPOP', part(id, 'p'))
if not index then return {} end
local attempt = redis.call('HINCRBY', part(id, 'a'), index, 1)
redis.call('HSET', part(id, 'c'), index, owner)
redis.call('ZADD', key('claims'), clock() + lease, id .. ' ' .. index)
redis.call('HSET', e, 'state', 'running')
return {index, redis.call('HGET', part(id, 's'), index), attempt}
"""
)
"""prefix, id, who claims, seconds of the lease. Returns index, submission, number of this attempt; or nothing."""

RENEW = (
    _HELPERS
    + """
local _, id, index, owner, lease = unpack(ARGV)
if redis.call('HGET', part(id, 'c'), index) ~= owner then return 2 end
redis.call('ZADD', key('claims'), 'XX', clock() + lease, id .. ' ' .. index)
return redis.call('HEXISTS', key('e:' .. id), 'cancelled')
"""
)
"""prefix, id, index, owner, seconds. Returns 0: go on; 1: cancelled; 2: it is another's now."""

STORE = (
    _HELPERS
    + """
local _, id, index, judgement, tests, ttl = unpack(ARGV)
if redis.call('EXISTS', key('e:' .. id)) == 0 then return 0 end
local written = store(id, index, judgement, tests, ttl)
if written == 1 then redis.call('LREM', part(id, 'p'), 1, index) end
return written
"""
)
"""prefix, id, index, judgement, tests, seconds to keep. Returns 0 where another result was first, or nobody waits."""

GIVE_BACK = (
    _HELPERS
    + """
local _, id, index, owner, forgiven, cancelled, ttl = unpack(ARGV)
if redis.call('HGET', part(id, 'c'), index) ~= owner then return 0 end
redis.call('HDEL', part(id, 'c'), index)
if forgiven == '1' then redis.call('HINCRBY', part(id, 'a'), index, -1) end
redis.call('ZREM', key('claims'), id .. ' ' .. index)
if redis.call('HEXISTS', key('e:' .. id), 'cancelled') == 1 then
  store(id, index, cancelled, '', ttl)
else
  redis.call('LPUSH', part(id, 'p'), index)
end
return 1
"""
)
"""prefix, id, index, owner, attempts to forgive (0 or 1), judgement of what was cancelled, seconds to keep."""

RECOVER = (
    _HELPERS
    + """
local _, attempts, lost, cancelled, ttl = unpack(ARGV)
local found = {}
for _, claim in ipairs(redis.call('ZRANGEBYSCORE', key('claims'), '-inf', clock(), 'LIMIT', 0, 1000)) do
  local id, index = string.match(claim, '^(%S+) (%d+)$')
  local owner = redis.call('HGET', part(id, 'c'), index)
  redis.call('ZREM', key('claims'), claim)
  if owner then
    redis.call('HDEL', part(id, 'c'), index)
    redis.call('ZREM', part(id, 't'), string.match(owner, '^[^:]*:([^:]*)') or '')
    found[#found + 1] = claim
    if redis.call('HEXISTS', key('e:' .. id), 'cancelled') == 1 then
      store(id, index, cancelled, '', ttl)
    elseif tonumber(redis.call('HGET', part(id, 'a'), index)) >= tonumber(attempts) then
      store(id, index, lost, '', ttl)
    else
      redis.call('LPUSH', part(id, 'p'), index)
    end
  end
end
return found
"""
)
"""prefix, attempts allowed, judgement of what is lost for good, of what was cancelled, seconds to keep. The turn that
claimed (an owner is `worker:turn:number`) is as dead as its worker, and makes room for another."""

NEXT_TURN = (
    _HELPERS
    + """
local _, id, ended, fresh, workers = unpack(ARGV)
redis.call('ZREM', part(id, 't'), ended)
local pending = redis.call('LLEN', part(id, 'p'))
if redis.call('ZCARD', part(id, 't')) >= math.min(pending, tonumber(workers)) then return 0 end
redis.call('ZADD', part(id, 't'), clock(), fresh)
return 1
"""
)
"""prefix, id, the turn that ended, the turn that may follow, workers. Returns 1 where it shall be enqueued."""

TOP_UP = (
    _HELPERS
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

KEEP_SUITE = (
    _HELPERS
    + """
local _, suite, budget, stored, size, tests, chunks = unpack(ARGV)
local now, meta = clock(), key('suite:' .. suite)
if redis.call('EXISTS', meta) == 1 then
  for chunk = 0, chunks - 1 do redis.call('PERSIST', meta .. ':' .. chunk) end
  redis.call('ZADD', key('suites'), now, suite)
  return 1
end
local room = tonumber(budget) - stored - tonumber(redis.call('GET', key('suites:bytes')) or 0)
if room < 0 then
  for _, old in ipairs(redis.call('ZRANGE', key('suites'), 0, -1)) do
    if redis.call('SCARD', key('suite:' .. old .. ':refs')) == 0 then
      local data = key('suite:' .. old)
      local freed, count = unpack(redis.call('HMGET', data, 'stored', 'chunks'))
      for chunk = 0, count - 1 do redis.call('DEL', data .. ':' .. chunk) end
      redis.call('DEL', data)
      redis.call('ZREM', key('suites'), old)
      redis.call('DECRBY', key('suites:bytes'), freed)
      room = room + freed
      if room >= 0 then break end
    end
  end
  if room < 0 then return 0 end
end
for chunk = 0, chunks - 1 do
  if redis.call('PERSIST', meta .. ':' .. chunk) == 0 then return 2 end
end
redis.call('HSET', meta, 'stored', stored, 'size', size, 'tests', tests, 'chunks', chunks)
redis.call('ZADD', key('suites'), now, suite)
redis.call('INCRBY', key('suites:bytes'), stored)
return 1
"""
)
"""prefix, suite, budget, bytes stored, bytes as uploaded, tests, chunks. The chunks are there already, about to expire.
Returns 1: kept; 0: no room, all that is stored is in use; 2: a chunk went away meanwhile, write them again."""

HEARTBEAT = (
    _HELPERS
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

LIVING = (
    _HELPERS
    + """
local told = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', key('workers'), clock(), '+inf')) do
  told[#told + 1] = redis.call('GET', key('worker:' .. worker)) or nil
end
return told
"""
)
"""prefix. Returns what each living worker says of itself."""
