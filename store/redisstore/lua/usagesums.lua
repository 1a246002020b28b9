-- Returns the version of the bucket's usage, and the values of the sums with the keys ARGV, empty for none.
local values = {}
for i = 1, #ARGV, 1000 do
	for _, value in ipairs(call('HMGET', P .. 'us', unpack(ARGV, i, math.min(i + 999, #ARGV)))) do
		values[#values + 1] = value or ''
	end
end
return { 'ok', call('HGET', P .. 'uh', 'version') or '0', values }
