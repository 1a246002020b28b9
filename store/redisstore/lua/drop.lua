-- Removes the log ARGV[1], and wakes its followers on the channel ARGV[2]. The fact that it was dropped is kept for
-- ARGV[3] milliseconds.
local meta = P .. 'l:' .. ARGV[1]
for _, right in ipairs({ 'HGET', 'HSET', 'PEXPIRE', 'UNLINK', 'ZREM' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
if not call('HGET', meta, 'dropped') then
	call('UNLINK', P .. 'e:' .. ARGV[1], meta)
	call('HSET', meta, 'dropped', '1')
	call('PEXPIRE', meta, ARGV[3])
	call('ZREM', P .. 'i:logs', ARGV[1])
end
return { 'ok', announce(ARGV[2], '0 ') }
