-- Returns the version of the bucket's usage, the values of the sums with keys from ARGV[1] to before ARGV[2], and the
-- rows that are not folded.
local keys = call('ZRANGEBYLEX', P .. 'uz', '[' .. ARGV[1], '(' .. ARGV[2])
local sums = {}
for i = 1, #keys, 1000 do
	for _, value in ipairs(call('HMGET', P .. 'us', unpack(keys, i, math.min(i + 999, #keys)))) do
		sums[#sums + 1] = value
	end
end
return { 'ok', call('HGET', P .. 'uh', 'version') or '0', sums, call('LRANGE', P .. 'ul', 0, -1) }
