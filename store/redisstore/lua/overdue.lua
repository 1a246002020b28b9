-- Returns up to ARGV[4] names of the index ARGV[1] whose time came at least ARGV[5] microseconds ago, the longest ago
-- first, after the one with the time ARGV[2] and the name ARGV[3]. Each is its name, its time, and the fields ARGV[7]
-- and following of the hash ARGV[6]:NAME. A name whose hash is gone is removed from the index.
local key, from, last, n, hash = P .. 'i:' .. ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), P .. ARGV[6] .. ':'
local till = text(clock() - ARGV[5])
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HMGET', key) and 'HMGET' or not may('ZRANGEBYSCORE', key) and 'ZRANGEBYSCORE' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local list, found, offset = {}, 0, 0
while found < n do
	local members = call('ZRANGEBYSCORE', key, from, till, 'WITHSCORES', 'LIMIT', offset, n)
	for i = 1, #members, 2 do
		local name, at = members[i], tonumber(members[i + 1])
		offset = offset + 1
		if found < n and (at ~= tonumber(from) or less(last, name)) then
			local fields = call('HMGET', hash .. name, unpack(ARGV, 7))
			if fields[1] then
				list[#list + 1] = { name, text(at), fields }
				found = found + 1
			else
				call('ZREM', key, name)
				offset = offset - 1
			end
		end
	end
	if #members < 2 * n then
		break
	end
end
return { 'ok', list }
