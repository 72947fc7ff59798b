"""The record of an evaluation in Redis: its keys, and the only scripts that change it.

The record is the truth; RQ only carries turns. Each script is one atomic step, so any number of API processes and
workers may run them at once and die between any two. The steps of a submission:

    pending ─claim─► claimed (a lease that its worker renews) ─store─► judged; the first result written stays
       ▲                │
       └──give back─────┴─lease ran out (counted as an attempt; after too many: `internal_error`, `worker_lost`)

What is claimed while the cache of results knows it goes to judged at once, and no worker sees it. An index counts the
*different* submissions of an evaluation; `order` leads from the submissions of the request to them.

Keys, all under the queue's name:

    e:<id>     hash    body, order, total, done, state, cancelled, watched (until when somebody listens to each event),
                       arrived, suites (nothing, where it isn't listed for people), verdict:<verdict>: how many
    e:<id>:p   list    indexes that wait                     e:<id>:s   hash    index → submission, until it's judged
    e:<id>:c   hash    index → who claimed it                e:<id>:a   hash    index → attempts
    e:<id>:r   hash    index → judgement                     e:<id>:f   hash    index → all its tests
    e:<id>:o   list    indexes as they were judged           e:<id>:u   set     suites that it needs
    e:<id>:t   zset    turn → when last seen alive           fresh      zset    evaluation hardly begun → its arrival
    claims     zset    "<id> <index>" → end of the lease     live       set     evaluations that aren't done
    unfinished int     submissions not yet judged            events     stream  ids of evaluations with news
    workers    zset    worker → end of its lease             worker:<name>      what it runs, as JSON
    pulse      float   when a worker was last heard, see `living.py`
    suites     zset    suite → last use                      suite:<id>[:…]     see `suite_store.py`
    kept       zset    cached result → last use              k:<name>   hash    its judgement (s) and tests (t)
    kept:sizes hash    cached result → bytes                 kept:bytes, kept:hits, kept:misses     int
    stats      hash    what was counted, see `statistics.py` pace:<n>   int     judgements in the n-th ten seconds
    latest     list    ids of evaluations, the newest first
"""

from dataclasses import dataclass

EVENTS_KEPT = 10_000
"""A waiter looks at the record before and after it waits, so a trimmed event costs nothing but a little time."""
PACE_SECONDS, PACE_SPANS, PACE_TTL = 10, 90, 920
"""Judgements are counted in spans of so many seconds, and so many of these are told, and kept a little longer."""
LATEST = 100
"""Evaluations that are listed for people."""
FRESH = 8
"""An evaluation counts as hardly begun until so many of its submissions were claimed."""
RECENT_SECONDS = 1
"""An evaluation has just arrived for so long."""
CROWD = 8
"""Where so many have just arrived, none goes before the others."""
ENTRY_BYTES = 400
"""What a cached result takes beyond its text: two names of 64 bytes, a hash, places in a set and a hash."""


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


HELPERS = (
    """
local prefix = ARGV[1]
local function key(name) return prefix .. name end
local function part(id, name) return prefix .. 'e:' .. id .. ':' .. name end
local function clock() local t = redis.call('TIME') return t[1] + t[2] / 1000000 end
local function ring(id)
  redis.call('XADD', key('events'), 'MAXLEN', '~', EVENTS_KEPT, '*', 'id', id)
end
local function finish(id, ttl)
  local e = key('e:' .. id)
  redis.call('HSET', e, 'state', 'done')
  redis.call('SREM', key('live'), id)
  redis.call('ZREM', key('fresh'), id)
  for _, suite in ipairs(redis.call('SMEMBERS', part(id, 'u'))) do
    redis.call('SREM', key('suite:' .. suite .. ':refs'), id)
    redis.call('ZADD', key('suites'), 'XX', clock(), suite)
  end
  redis.call('DEL', part(id, 'p'), part(id, 's'), part(id, 'c'), part(id, 'a'), part(id, 't'), part(id, 'u'))
  for _, name in ipairs({'r', 'f', 'o'}) do redis.call('EXPIRE', part(id, name), ttl) end
  redis.call('EXPIRE', e, ttl)
end
local function store(id, index, judgement, tests)
  if redis.call('HSETNX', part(id, 'r'), index, judgement) == 0 then return 0 end
  if tests ~= '' then redis.call('HSET', part(id, 'f'), index, tests) end
  redis.call('RPUSH', part(id, 'o'), index)
  local verdict = string.match(judgement, '^{"verdict": "([a-z_]+)"') or 'unknown'
  redis.call('HINCRBY', key('e:' .. id), 'verdict:' .. verdict, 1)
  redis.call('HINCRBY', key('stats'), 'judgements:' .. verdict, 1)
  redis.call('HDEL', part(id, 's'), index)
  if redis.call('HDEL', part(id, 'c'), index) == 1 then redis.call('ZREM', key('claims'), id .. ' ' .. index) end
  return 1
end
local function count(id, stored, ttl)
  if stored == 0 then return end
  local e = key('e:' .. id)
  redis.call('DECRBY', key('unfinished'), stored)
  local span = key('pace:' .. math.floor(clock() / SPAN))
  redis.call('INCRBY', span, stored)
  redis.call('EXPIRE', span, PACE_TTL)
  local done = redis.call('HINCRBY', e, 'done', stored)
  local total, watched = unpack(redis.call('HMGET', e, 'total', 'watched'))
  if done >= tonumber(total) then
    finish(id, ttl)
    ring(id)
  elseif watched and tonumber(watched) > clock() then
    ring(id)
  end
end
""".replace("EVENTS_KEPT", str(EVENTS_KEPT))
    .replace("SPAN", str(PACE_SECONDS))
    .replace("PACE_TTL", str(PACE_TTL))
)

ACCEPT = (
    HELPERS
    + """
local _, id, body, order, bound, turn_count, suite_count, listed = unpack(ARGV, 1, 8)
local e = key('e:' .. id)
local known = redis.call('HGET', e, 'body')
if known then return {known == body and 'known' or 'conflict'} end
local at = 9
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
for first = 0, total - 1, 1000 do
  local indexes, fields = {}, {}
  for index = first, math.min(first + 1000, total) - 1 do
    indexes[#indexes + 1] = index
    fields[#fields + 1] = index
    fields[#fields + 1] = ARGV[at + index]
  end
  redis.call('RPUSH', part(id, 'p'), unpack(indexes))
  redis.call('HSET', part(id, 's'), unpack(fields))
end
local now = clock()
for _, turn in ipairs(turns) do redis.call('ZADD', part(id, 't'), now, turn) end
for _, suite in ipairs(suites) do
  redis.call('SADD', part(id, 'u'), suite)
  redis.call('SADD', key('suite:' .. suite .. ':refs'), id)
  redis.call('ZADD', key('suites'), now, suite)
end
redis.call('HSET', e, 'body', body, 'order', order, 'total', total, 'done', 0, 'state', 'queued', 'arrived', now)
if listed ~= '' then
  redis.call('HSET', e, 'suites', listed)
  redis.call('LPUSH', key('latest'), id)
  redis.call('LTRIM', key('latest'), 0, LATEST - 1)
end
redis.call('SADD', key('live'), id)
redis.call('ZADD', key('fresh'), now, id)
redis.call('INCRBY', key('unfinished'), total)
return {'accepted'}
""".replace("LATEST", str(LATEST))
)
"""prefix, id, hash of the body, order, queue bound, number of turns and of suites, which suites (nothing: it isn't
listed for people), turns…, suites…, submissions…"""

CANCEL = (
    HELPERS
    + """
local _, id, judgement, ttl = unpack(ARGV)
local e = key('e:' .. id)
local state = redis.call('HGET', e, 'state')
if not state then return 0 end
if state == 'done' then return 1 end
redis.call('HSET', e, 'cancelled', 1)
local stored = 0
while true do
  local index = redis.call('LPOP', part(id, 'p'))
  if not index then break end
  stored = stored + store(id, index, judgement, '')
end
count(id, stored, ttl)
return 1
"""
)
"""prefix, id, judgement of what is dropped, seconds to keep it. Returns 0 where there is no such evaluation."""

CLAIM = (
    HELPERS
    + """
local _, own, owner, lease, most, overtake, place, ttl, cache_ttl = unpack(ARGV)
local hits = 0
local function look_up(submission)
  if place == '' then return nil end
  local name = place .. string.sub(submission, 1, 32)
  local short, tests = unpack(redis.call('HMGET', key('k:' .. name), 's', 't'))
  if not short then return nil end
  hits = hits + 1
  redis.call('ZADD', key('kept'), 'XX', clock(), name)
  redis.call('EXPIRE', key('k:' .. name), cache_ttl)
  return short, tests
end
local function take(id)
  local pending, found, stored = part(id, 'p'), {}, 0
  local share = redis.call('LLEN', pending) / (2 * math.max(1, redis.call('ZCARD', part(id, 't'))))
  local room = math.max(1, math.min(most, share))
  while #found < 3 * room and stored < 1000 do
    local index = redis.call('LPOP', pending)
    if not index then break end
    local submission = redis.call('HGET', part(id, 's'), index)
    local short, tests = look_up(submission)
    if short then
      stored = stored + store(id, index, short, tests)
    else
      local attempt = redis.call('HINCRBY', part(id, 'a'), index, 1)
      if attempt > 1 and #found > 0 then
        redis.call('HINCRBY', part(id, 'a'), index, -1)
        redis.call('LPUSH', pending, index)
        break
      end
      redis.call('HSET', part(id, 'c'), index, owner)
      redis.call('ZADD', key('claims'), clock() + lease, id .. ' ' .. index)
      for _, value in ipairs({index, submission, attempt}) do found[#found + 1] = value end
      if attempt > 1 then break end
    end
  end
  if #found > 0 then redis.call('HSET', key('e:' .. id), 'state', 'running') end
  local waiting = redis.call('LLEN', pending)
  if waiting == 0 or tonumber(redis.call('HGET', key('e:' .. id), 'total')) - waiting >= FRESH then
    redis.call('ZREM', key('fresh'), id)
  end
  count(id, stored, ttl)
  return found
end
local id, found = own, {}
if overtake ~= '0' then
  local since = overtake == '2' and clock() - RECENT or '-inf'
  local newest = redis.call('ZREVRANGEBYSCORE', key('fresh'), '+inf', since, 'LIMIT', 0, CROWD)
  local wanted = newest[1] and newest[1] ~= own
  if overtake == '2' then wanted = wanted and #newest < CROWD and redis.call('HLEN', part(newest[1], 'c')) == 0 end
  if wanted then id, found = newest[1], take(newest[1]) end
end
if #found == 0 and own ~= '' then id, found = own, take(own) end
if hits > 0 then redis.call('INCRBY', key('kept:hits'), hits) end
return {id, hits, redis.call('LLEN', part(id, 'p')), unpack(found)}
""".replace("FRESH", str(FRESH))
    .replace("RECENT", str(RECENT_SECONDS))
    .replace("CROWD", str(CROWD))
)
"""prefix, id, who claims, seconds of the lease, how many at most, which fresh evaluations go before (an `Overtaking`),
the place (or nothing: no cache is looked into), seconds to keep results and cached ones. Returns the evaluation, the
number of cached results, how many still wait, and index, submission, number of this attempt for each that is claimed.
What was tried before is claimed alone: if it is what kills workers, it takes no other along."""

RENEW = (
    HELPERS
    + """
local _, id, owner, lease = unpack(ARGV, 1, 4)
local cancelled, ends, holds = redis.call('HEXISTS', key('e:' .. id), 'cancelled'), clock() + lease, {}
for at = 5, #ARGV do
  if redis.call('HGET', part(id, 'c'), ARGV[at]) == owner then
    redis.call('ZADD', key('claims'), 'XX', ends, id .. ' ' .. ARGV[at])
    holds[#holds + 1] = cancelled
  else
    holds[#holds + 1] = 2
  end
end
return holds
"""
)
"""prefix, id, owner, seconds, indexes…. Returns for each 0: go on; 1: cancelled; 2: it is another's now."""

STORE = (
    HELPERS
    + """
local _, id, ttl, budget, cache_ttl = unpack(ARGV, 1, 5)
if redis.call('EXISTS', key('e:' .. id)) == 0 then return {} end
local kept, stored, written = false, 0, {}
local function forget(name)
  redis.call('DEL', key('k:' .. name))
  redis.call('ZREM', key('kept'), name)
  redis.call('DECRBY', key('kept:bytes'), redis.call('HGET', key('kept:sizes'), name) or 0)
  redis.call('HDEL', key('kept:sizes'), name)
end
local function keep(name, short, tests)
  if redis.call('ZADD', key('kept'), 'NX', clock(), name) == 0 and redis.call('EXISTS', key('k:' .. name)) == 1 then
    return
  end
  forget(name)
  local size = #short + #tests + ENTRY
  redis.call('ZADD', key('kept'), clock(), name)
  redis.call('HSET', key('k:' .. name), 's', string.sub(short, 1, -7) .. 'true}', 't', tests)
  redis.call('EXPIRE', key('k:' .. name), cache_ttl)
  redis.call('HSET', key('kept:sizes'), name, size)
  redis.call('INCRBY', key('kept:bytes'), size)
  kept = true
end
for at = 6, #ARGV, 5 do
  local index, short, tests, name, mark = unpack(ARGV, at, at + 4)
  local asked, first = redis.call('HGET', part(id, 's'), index), 0
  if asked and string.sub(asked, 1, #mark) == mark then first = store(id, index, short, tests) end
  if first == 1 then redis.call('LREM', part(id, 'p'), 1, index) end
  if name ~= '' then keep(name, short, tests) end
  stored = stored + first
  written[#written + 1] = first
end
count(id, stored, ttl)
if budget ~= '0' then redis.call('INCRBY', key('kept:misses'), stored) end
if kept then
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', key('kept'), '-inf', clock() - cache_ttl, 'LIMIT', 0, 100)) do
    forget(name)
  end
  while tonumber(redis.call('GET', key('kept:bytes')) or 0) > tonumber(budget) do
    local oldest = redis.call('ZRANGE', key('kept'), 0, 0)[1]
    if not oldest then break end
    forget(oldest)
  end
end
return written
""".replace("ENTRY", str(ENTRY_BYTES))
)
"""prefix, id, seconds to keep results, bytes of the cache and seconds that it keeps; then for each judgement its index,
short piece, tests, name in the cache or nothing, and fingerprint. Returns for each 1, or 0 where another was first or
this place has another submission; nothing where nobody waits. A short piece ends with `"cached": false}`, and its copy
in the cache with `true}`."""

GIVE_BACK = (
    HELPERS
    + """
local _, id, owner, forgiven, cancelled, ttl = unpack(ARGV, 1, 6)
local dropped, stored = redis.call('HEXISTS', key('e:' .. id), 'cancelled') == 1, 0
for at = #ARGV, 7, -1 do
  local index = ARGV[at]
  if redis.call('HGET', part(id, 'c'), index) == owner then
    redis.call('HDEL', part(id, 'c'), index)
    redis.call('ZREM', key('claims'), id .. ' ' .. index)
    if forgiven == '1' then redis.call('HINCRBY', part(id, 'a'), index, -1) end
    if dropped then
      stored = stored + store(id, index, cancelled, '')
    else
      redis.call('LPUSH', part(id, 'p'), index)
    end
  end
end
count(id, stored, ttl)
return 1
"""
)
"""prefix, id, owner, attempts to forgive (0 or 1), judgement of what was cancelled, seconds to keep it, indexes…."""
