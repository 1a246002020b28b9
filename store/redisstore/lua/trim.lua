-- Removes the events of the log ARGV[1] before the sequence ARGV[2].
local last = tonumber(call('HGET', P .. 'l:' .. ARGV[1], 'last')) or 0
local before = math.min(tonumber(ARGV[2]), last + 1)
if before <= 1 then
	return { 'ok' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HGET', key) and 'HGET' or not may('HSET', key) and 'HSET'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
call('XTRIM', P .. 'e:' .. ARGV[1], 'MINID', '=', text(before))
local first = tonumber(call('HGET', P .. 'l:' .. ARGV[1], 'first')) or 1
call('HSET', P .. 'l:' .. ARGV[1], 'first', text(math.max(first, before))) -- within a batch
return { 'ok' }
