-- Returns what a branch of the session ARGV[1] takes from it, the chain of its state and its messages: at the
-- checkpoint ARGV[2], or else after ARGV[3] messages, or if both are empty, at its end.
local id = ARGV[1]
local row = load(id)
if not row then
	return missing(id)
end
local count, position, frame, first = row.messages, row.position, row.frame, row.first
local function at(checkpoint)
	local record = call('HGET', P .. 'c:' .. id, 'c' .. checkpoint)
	return record and decoded(record)
end
if ARGV[2] ~= '' then
	local record = at(ARGV[2])
	if not record then
		return { 'checkpoint', {}, ARGV[2] }
	end
	count, position, frame = record[3], record[4], record[5]
elseif ARGV[3] ~= '' and tonumber(ARGV[3]) ~= count then
	local most = tonumber(ARGV[3])
	if most < 0 or most > count then
		return { 'messages', {}, tostring(count) }
	end
	-- The latest checkpoint with no more messages. The number of messages never falls from one checkpoint to the next.
	local low, high = 0, call('LLEN', P .. 'n:' .. id)
	count, position, frame = most, first, first
	while low < high do
		local middle = math.floor((low + high) / 2)
		local record = at(call('LINDEX', P .. 'n:' .. id, middle))
		if record[3] <= most then
			low, position, frame = middle + 1, record[4], record[5]
		else
			high = middle
		end
	end
	local oldest = low == 0 and call('LINDEX', P .. 'n:' .. id, 0)
	if oldest and at(oldest)[8] ~= '' then -- it was not the first
		return { 'pruned', {}, tostring(at(oldest)[3]) }
	end
end
local messages = count > 0 and call('LRANGE', P .. 'm:' .. id, 0, count - 1) or {}
return { 'ok', call('LRANGE', P .. 'f:' .. id, frame - first, position - first), messages,
	tostring(row.summary_at or 0), tostring(row.summary_from or 0), row.trust or '[]' }
