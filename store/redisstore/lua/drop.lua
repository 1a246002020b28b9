-- Removes the log ARGV[1], and wakes its followers on the channel ARGV[2]. The fact that it was dropped is kept for
-- ARGV[3] milliseconds.
local meta = P .. 'l:' .. ARGV[1]
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HGET', key) and 'HGET' or not may('HSET', key) and 'HSET' or not may('PEXPIRE', key) and 'PEXPIRE' or not may('UNLINK', key) and 'UNLINK'
		or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
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
