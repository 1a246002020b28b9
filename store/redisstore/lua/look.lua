-- Returns the row of the session ARGV[1], and the values that the rest asks for, three texts each: HGET, a key and a
-- field, or HKEYS, a key and an empty text.
local row = stored(ARGV[1])
if not row[1] then
	return missing(ARGV[1])
end
local found = {}
for i = 2, #ARGV, 3 do
	if ARGV[i] == 'HKEYS' then
		found[#found + 1] = call('HKEYS', P .. ARGV[i + 1])
	else
		found[#found + 1] = call('HGET', P .. ARGV[i + 1], ARGV[i + 2])
	end
end
return { 'ok', row, found }
