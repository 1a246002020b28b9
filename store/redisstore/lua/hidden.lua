-- Returns the sessions of the removal ARGV[1]: for each its id and row.
local list, before = {}, 'z:' .. ARGV[1] .. ':s:'
for _, name in ipairs(call('LRANGE', P .. 't:' .. ARGV[1], 0, -1)) do
	if string.sub(name, 1, #before) == before then
		local row = kept(name)
		if row[1] then
			list[#list + 1] = { string.sub(name, #before + 1), row }
		end
	end
end
return { 'ok', list }
