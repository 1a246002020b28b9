-- Returns the version of the layout and the number of buckets in KEYS[1]. It sets these to ARGV[1] and ARGV[2] if there
-- are none. It writes in any case, so that it fails on a server that refuses writes.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
	return { 0, 0 }
end
redis.call('HSETNX', KEYS[1], 'version', ARGV[1])
redis.call('HSETNX', KEYS[1], 'buckets', ARGV[2])
local found = redis.call('HMGET', KEYS[1], 'version', 'buckets')
return { tonumber(found[1]) or 0, tonumber(found[2]) or 0 }
