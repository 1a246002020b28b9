-- Makes the log ARGV[1] due for a sweep in ARGV[3] microseconds, or at once if its last sequence is no longer ARGV[2].
local last = call('HGET', P .. 'l:' .. ARGV[1], 'last')
if not last then
	return { 'ok' }
end
for _, right in ipairs({ 'TIME', 'ZADD' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
local wait = last == ARGV[2] and tonumber(ARGV[3]) or 0
call('ZADD', P .. 'i:logs', 'XX', text(clock() + wait), ARGV[1])
return { 'ok' }
