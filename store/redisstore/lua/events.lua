-- Returns the first and the last sequence of the log ARGV[1], and the batches with up to ARGV[3] events from sequence
-- ARGV[2] on.
local stream, limit = P .. 'e:' .. ARGV[1], tonumber(ARGV[3])
local found = call('HMGET', P .. 'l:' .. ARGV[1], 'last', 'dropped', 'first')
if found[2] then
	return { 'dropped' }
end
local last = tonumber(found[1]) or 0
local first, oldest = last + 1, call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
if oldest then
	local sequence, count = string.match(oldest[1], '^(%d+)-(%d+)$')
	first = math.max(sequence - count + 1, tonumber(found[3]) or 1)
end
local batches, from = {}, ARGV[2]
while limit > 0 do
	local some = call('XRANGE', stream, from, '+', 'COUNT', math.min(limit, 100))
	for _, batch in ipairs(some) do
		local sequence, count = string.match(batch[1], '^(%d+)-(%d+)$')
		batches[#batches + 1] = batch
		limit = limit - math.min(count, sequence - ARGV[2] + 1)
		if limit <= 0 then
			break
		end
	end
	if #some == 0 then
		break
	end
	from = '(' .. some[#some][1]
end
return { 'ok', text(first), text(last), batches }
