-- Removes the events of the log ARGV[1] before the sequence ARGV[2].
local last = tonumber(call('HGET', P .. 'l:' .. ARGV[1], 'last')) or 0
local before = math.min(tonumber(ARGV[2]), last + 1)
if before <= 1 then
	return { 'ok' }
end
for _, right in ipairs({ 'HGET', 'HSET' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
call('XTRIM', P .. 'e:' .. ARGV[1], 'MINID', '=', text(before))
local first = tonumber(call('HGET', P .. 'l:' .. ARGV[1], 'first')) or 1
call('HSET', P .. 'l:' .. ARGV[1], 'first', text(math.max(first, before))) -- within a batch
return { 'ok' }
