-- Names blobs of another owner in the bucket: ARGV[4] is the id of its root and ARGV[5] that one's incarnation. The hashes
-- follow. Returns the first one that the other owner does not name.
local refused = owning()
if refused then
	return refused
end
local others = P .. 'blobn:' .. ARGV[4] .. '\1' .. ARGV[5]
for i = 6, #ARGV do
	if not call('ZSCORE', others, ARGV[i]) then
		return { 'lacks', ARGV[i] }
	end
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HINCRBY', key) and 'HINCRBY' or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 6, #ARGV do
	name(ARGV[i])
end
return { 'ok' }
