-- Returns up to ARGV[4] sessions of the index ARGV[1], the newest first, after the one created at ARGV[2] with the id
-- ARGV[3]: for each its id and row.
local key, created, last, n = P .. 'i:' .. ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local list, offset = {}, 0
while #list < n do
	local members = call('ZREVRANGEBYSCORE', key, created, '-inf', 'WITHSCORES', 'LIMIT', offset, n)
	for i = 1, #members, 2 do
		local id = members[i]
		offset = offset + 1
		if #list < n and (tonumber(members[i + 1]) ~= tonumber(created) or less(id, last)) then
			list[#list + 1] = { id, stored(id) }
		end
	end
	if #members < 2 * n then
		break
	end
end
return { 'ok', list }
