-- Returns all that is stored of the session ARGV[1] and of its log, and the size of that, if the session is a tree by
-- itself, no list has more than ARGV[2] items, and the size is at most ARGV[3] bytes.
local id, most, left = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local row, list = load(id)
if not row then
	return missing(id)
end
if row.root ~= id or call('ZCARD', P .. 'i:root:' .. id) ~= 1 then
	return { 'large' }
end
-- Of a list that is too long one more item than most is read.
local function spend(values, each)
	for i = 1, #values do
		left = left - #values[i]
	end
	if #values > most * each then
		left = -1
	end
	return values
end
local function range(letter)
	return spend(call('LRANGE', P .. letter .. ':' .. id, 0, most), 1)
end
local function hash(letter)
	return spend(call('HGETALL', P .. letter .. ':' .. id), 2)
end
local states, messages, staged, cache, queue = range('f'), range('m'), hash('g'), hash('h'), hash('q')
local runs, checkpoints, calls = {}, {}, {}
for _, name in ipairs(range('o')) do
	local fields = run(id, name)
	for _, value in ipairs({ name, fields[1], fields[2], fields[3] }) do
		runs[#runs + 1] = value
	end
end
for _, name in ipairs(range('n')) do
	checkpoints[#checkpoints + 1] = name
	checkpoints[#checkpoints + 1] = call('HGET', P .. 'c:' .. id, 'c' .. name)
end
for _, name in ipairs(call('HKEYS', P .. 'k:' .. id)) do
	calls[#calls + 1] = name
	calls[#calls + 1] = call('HGET', P .. 'w:' .. id, name)
end
spend(runs, 4)
spend(checkpoints, 2)
spend(calls, 2)

local log = logname(id, row)
local found, batches = call('HMGET', P .. 'l:' .. log, 'last', 'dropped', 'first'), call('XRANGE', P .. 'e:' .. log, '-', '+', 'COUNT', most + 1)
local last = tonumber(found[1]) or 0
local first = last + 1
if batches[1] then
	local sequence, count = string.match(batches[1][1], '^(%d+)-(%d+)$')
	first = math.max(sequence - count + 1, tonumber(found[3]) or 1)
end
for _, batch in ipairs(batches) do
	spend(batch[2], 4)
end
if found[2] or #batches > most or left <= 0 then
	return { 'large' }
end
return { 'ok', list, states, messages, runs, checkpoints, calls, staged, cache, queue, batches, text(first), text(last), text(ARGV[3] - left) }
