-- Makes the log ARGV[1] due for a sweep in ARGV[3] microseconds, or at once if its last sequence is no longer ARGV[2].
local last = call('HGET', P .. 'l:' .. ARGV[1], 'last')
if not last then
	return { 'ok' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('TIME', key) and 'TIME' or not may('ZADD', key) and 'ZADD'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local wait = last == ARGV[2] and tonumber(ARGV[3]) or 0
call('ZADD', P .. 'i:logs', 'XX', text(clock() + wait), ARGV[1])
return { 'ok' }
