-- Returns which of the roots ARGV[1] and following may have expired.
local list, now = {}, clock()
for i = 1, #ARGV do
	local at = call('ZSCORE', P .. 'i:sweep', ARGV[i])
	if at and tonumber(at) <= now then
		list[#list + 1] = ARGV[i]
	end
end
return { 'ok', list }
