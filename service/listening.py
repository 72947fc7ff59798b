"""Scripts of the record for those who wait for judgements: let them be told of, take them away."""

from service.records import HELPERS

COLLECT = (
    HELPERS
    + """
local _, id, read, seconds = unpack(ARGV)
local e = key('e:' .. id)
local state = redis.call('HGET', e, 'state')
if not state then return {'gone'} end
local found = {state}
for _, index in ipairs(redis.call('LRANGE', part(id, 'o'), read, -1)) do
  found[#found + 1] = index
  found[#found + 1] = redis.call('HGET', part(id, 'r'), index)
  found[#found + 1] = redis.call('HGET', part(id, 'f'), index) or ''
  redis.call('HDEL', part(id, 'f'), index)
end
if state == 'done' then
  redis.call('UNLINK', e, part(id, 'r'), part(id, 'f'), part(id, 'o'))
else
  redis.call('HSET', e, 'watched', clock() + seconds)
end
return found
"""
)
"""prefix, id, judgements already read, seconds for which each further one is to be told of. Returns the state (`gone`:
there is no such evaluation), then index, judgement and tests of each that is new; forgets these tests, and in the end
everything."""

WATCH = (
    HELPERS
    + """
local e = key('e:' .. ARGV[2])
if redis.call('EXISTS', e) == 0 then return 0 end
redis.call('HSET', e, 'watched', clock() + ARGV[3])
return 1
"""
)
"""prefix, id, seconds for which each judgement is to be told of. Returns 0 where there is no such evaluation."""
