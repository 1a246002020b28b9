-- Returns, for each of the hashes ARGV[5] and so on, the blob if ARGV[4] is 1, or else a text; nothing for one that the
-- owner does not name.
local list = {}
for i = 5, #ARGV do
	local found = call('ZSCORE', NAMES, ARGV[i])
	if found and ARGV[4] == '1' then
		found = call('HGET', P .. 'blob:' .. place(ARGV[i]), 'data')
	end
	list[i - 4] = found
end
return { 'ok', list }
