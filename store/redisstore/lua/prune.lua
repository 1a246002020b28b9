-- Removes all but the newest ARGV[2] checkpoints of the session ARGV[1], and the states that only they needed.
local id = ARGV[1]
local row = load(id)
if not row then
	return missing(id)
end
local drop = call('LLEN', P .. 'n:' .. id) - ARGV[2]
if drop <= 0 then
	return { 'ok', 0 }
end
local oldest = decoded(call('HGET', P .. 'c:' .. id, 'c' .. call('LINDEX', P .. 'n:' .. id, drop)))
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HDEL', key) and 'HDEL' or not may('HGET', key) and 'HGET' or not may('HSET', key) and 'HSET' or not may('LRANGE', key) and 'LRANGE'
		or not may('LTRIM', key) and 'LTRIM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for _, checkpoint in ipairs(call('LRANGE', P .. 'n:' .. id, 0, drop - 1)) do
	local record = decoded(call('HGET', P .. 'c:' .. id, 'c' .. checkpoint))
	call('HDEL', P .. 'c:' .. id, 'c' .. checkpoint, 's' .. record[10])
end
call('LTRIM', P .. 'n:' .. id, drop, -1)
call('LTRIM', P .. 'f:' .. id, oldest[5] - row.first, -1)
call('HSET', P .. 's:' .. id, 'first', oldest[5])
return { 'ok', drop }
