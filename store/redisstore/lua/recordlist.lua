-- Reads up to ARGV[5] entries of vk or vi, as ARGV[2] says, from ARGV[3] to ARGV[4]. Returns the time, the live
-- records, each after its key, and the last entry, or nothing if none follows it.
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HMGET', key) and 'HMGET' or not may('UNLINK', key) and 'UNLINK' or not may('ZRANGEBYLEX', key) and 'ZRANGEBYLEX'
		or not may('ZRANGEBYSCORE', key) and 'ZRANGEBYSCORE' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
sweep(100)
local places = call('ZRANGEBYLEX', ARGV[2] == 'vi' and PLACES or KEYS_OF, ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5])
local list = {}
for _, at in ipairs(places) do
	local cut = ARGV[2] == 'vi' and string.find(at, '\0', 1, true) or 0
	local key = string.sub(at, cut + 1)
	local there = record(key)
	if there and (cut == 0 or there[1] == string.sub(at, 1, cut - 1)) then
		list[#list + 1] = key
		list[#list + 1] = there
	end
end
return { 'ok', text(NOW), list, #places == tonumber(ARGV[5]) and places[#places] or '' }
