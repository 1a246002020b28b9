-- Returns up to ARGV[4] pending calls of the index ARGV[1], the oldest first, after the one created at ARGV[2] with the
-- name ARGV[3], which is its root and its id. Each is its name and its record.
local key, created, last, n = P .. 'i:' .. ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local list, offset = {}, 0
while #list < 2 * n do
	local members = call('ZRANGEBYSCORE', key, created, '+inf', 'WITHSCORES', 'LIMIT', offset, n)
	for i = 1, #members, 2 do
		local name = members[i]
		offset = offset + 1
		if #list < 2 * n and (tonumber(members[i + 1]) ~= tonumber(created) or less(last, name)) then
			local root, id = string.match(name, '^([^\n]*)\n(.*)$')
			list[#list + 1] = name
			list[#list + 1] = call('HGET', P .. 'w:' .. root, id)
		end
	end
	if #members < 2 * n then
		break
	end
end
return { 'ok', list }
