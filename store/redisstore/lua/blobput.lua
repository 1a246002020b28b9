-- Stores blobs and names them. ARGV[4] and so on are their hashes, each before its bytes.
local refused = owning()
if refused then
	return refused
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HINCRBY', key) and 'HINCRBY' or not may('HSETNX', key) and 'HSETNX' or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 4, #ARGV, 2 do
	call('HSETNX', P .. 'blob:' .. place(ARGV[i]), 'data', ARGV[i + 1])
	name(ARGV[i])
end
return { 'ok' }
