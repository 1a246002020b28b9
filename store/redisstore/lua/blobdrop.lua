-- Removes the owner's names of the blobs with the hashes ARGV[4] and so on.
local now = text(clock())
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HINCRBY', key) and 'HINCRBY' or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 4, #ARGV do
	if call('ZREM', NAMES, ARGV[i]) == 1 and call('HINCRBY', P .. 'blob:' .. place(ARGV[i]), 'names', -1) == 0 then
		call('ZADD', UNNAMED, now, place(ARGV[i]))
	end
end
if call('EXISTS', NAMES) == 0 then
	call('ZREM', OWNERS, OWNER)
end
return { 'ok' }
