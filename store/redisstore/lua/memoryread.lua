-- Reads entries. Four arguments for each read: the first key, the bound as ZRANGEBYLEX has it or nothing for one key,
-- the most entries or -1, and 1 for sizes. Returns the time, the version, and for each read a list of keys, each before
-- its value or the size of that.
local version = call('HGET', HEAD, 'version')
if not version then
	return { 'ok', text(NOW), '0', {} }
end
local found = {}
for i = 2, #ARGV, 4 do
	local keys, list = { ARGV[i] }, {}
	if ARGV[i + 1] ~= '' then
		keys = call('ZRANGEBYLEX', KEYS_OF, '[' .. ARGV[i], ARGV[i + 1], 'LIMIT', 0, ARGV[i + 2])
	end
	for _, key in ipairs(keys) do
		local value = call('HGET', ENTRIES, key)
		if value then
			list[#list + 1] = key
			list[#list + 1] = ARGV[i + 3] == '1' and text(#value) or value
		end
	end
	found[#found + 1] = list
end
return { 'ok', text(NOW), version, found }
