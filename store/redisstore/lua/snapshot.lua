-- Answers everything that a process needs to drive the session ARGV[1]: its row, the chain of its state, its messages from
-- index ARGV[2] on, what is staged, the calls that its step waits for, and its cache.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
local calls = {}
if (row.suspended or '') ~= '' then
	local steps = call('HGETALL', P .. 'k:' .. id)
	for i = 1, #steps, 2 do
		if steps[i + 1] == row.suspended then
			calls[#calls + 1] = steps[i]
			calls[#calls + 1] = call('HGET', P .. 'w:' .. row.root, steps[i])
		end
	end
end
local first = row.first
return { 'ok', list, call('LRANGE', P .. 'f:' .. id, row.frame - first, row.position - first),
	call('LRANGE', P .. 'm:' .. id, ARGV[2], -1), call('HGETALL', P .. 'g:' .. id), calls, call('HGETALL', P .. 'h:' .. id) }
