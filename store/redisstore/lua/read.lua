-- Returns the row of the session ARGV[1] and what ARGV[2] asks for, a letter each: its checkpoint ARGV[3] (p), its run
-- ARGV[4] (r), the chain of its state (s), as of that checkpoint if it is asked for, ARGV[6] of its messages from index
-- ARGV[5] on, and from the latest summary on if ARGV[7] is not empty (m), its staged pieces (g), the calls that its
-- step waits for (w), its cache (h) and its queue (q).
local id, want = ARGV[1], ARGV[2] or ''
local row, list = load(id)
if not row then
	return missing(id)
end
local function asks(letter)
	return string.find(want, letter, 1, true)
end
local checkpoint, found, chain, messages, staged, calls, cache, queue = '', {}, {}, {}, {}, {}, {}, {}
local frame, position, first = row.frame, row.position, row.first
if asks('p') then
	checkpoint = call('HGET', P .. 'c:' .. id, 'c' .. ARGV[3])
	if not checkpoint then
		return { 'checkpoint' }
	end
	local record = decoded(checkpoint)
	position, frame = record[4], record[5]
end
if asks('r') then
	found = run(id, ARGV[4])
	if not found[1] then
		return { 'run' }
	end
end
if asks('s') then
	chain = call('LRANGE', P .. 'f:' .. id, frame - first, position - first)
end
if asks('m') then
	local from = tonumber(ARGV[5])
	if ARGV[7] ~= '' then
		from = math.max(from, row.summary_from or 0)
	end
	messages = call('LRANGE', P .. 'm:' .. id, from, from + tonumber(ARGV[6]) - 1)
end
if asks('g') then
	staged = call('HGETALL', P .. 'g:' .. id)
end
if asks('w') and (row.suspended or '') ~= '' then
	local steps = call('HGETALL', P .. 'k:' .. id)
	for i = 1, #steps, 2 do
		if steps[i + 1] == row.suspended then
			calls[#calls + 1] = steps[i]
			calls[#calls + 1] = call('HGET', P .. 'w:' .. row.root, steps[i])
		end
	end
end
if asks('h') then
	cache = call('HGETALL', P .. 'h:' .. id)
end
if asks('q') then
	queue = call('HGETALL', P .. 'q:' .. id)
end
return { 'ok', list, checkpoint, found, chain, messages, staged, calls, cache, queue }
