-- Returns the incarnation, the sessions and the root of the removal ARGV[1].
local list, before = {}, 'z:' .. ARGV[1] .. ':s:'
for _, name in ipairs(call('LRANGE', P .. 't:' .. ARGV[1], 0, -1)) do
	if string.sub(name, 1, #before) == before then
		list[#list + 1] = string.sub(name, #before + 1)
	end
end
return { 'ok', call('HGET', P .. 'z:' .. ARGV[1], 'incarnation') or '', list, call('HGET', P .. 'z:' .. ARGV[1], 'id') or '' }
