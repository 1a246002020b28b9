-- Deletes up to ARGV[2] blobs that have had no name for ARGV[1] microseconds. Returns their number and their size.
local blobs, bytes = 0, 0
local list = call('ZRANGEBYSCORE', P .. 'blobu', '-inf', text(clock() - ARGV[1]), 'LIMIT', 0, ARGV[2])
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HSTRLEN', key) and 'HSTRLEN' or not may('UNLINK', key) and 'UNLINK' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for _, place in ipairs(list) do
	blobs, bytes = blobs + 1, bytes + call('HSTRLEN', P .. 'blob:' .. place, 'data')
	call('UNLINK', P .. 'blob:' .. place)
	call('ZREM', P .. 'blobu', place)
end
return { 'ok', text(blobs), text(bytes) }
