-- Makes the log ARGV[1] due for a sweep in ARGV[3] microseconds, or at once if its last sequence is no longer ARGV[2].
local last = call('HGET', P .. 'l:' .. ARGV[1], 'last')
if last then
	-- Nothing fails from here on.
	local wait = last == ARGV[2] and tonumber(ARGV[3]) or 0
	call('ZADD', P .. 'i:logs', 'XX', text(clock() + wait), ARGV[1])
end
return { 'ok' }
