-- Returns the version of the bucket's usage, the time, how many rows were trimmed and how many remain folded, and up to
-- ARGV[2] rows from the number ARGV[1] on, which counts from 0 with the trimmed ones; -1 is the first that is not folded.
local head = call('HMGET', P .. 'uh', 'version', 'trimmed')
local trimmed, folded, most = tonumber(head[2] or 0), call('LLEN', P .. 'uk'), tonumber(ARGV[2])
local from = ARGV[1] == '-1' and folded or math.max(tonumber(ARGV[1]) - trimmed, 0)
local rows = {}
if from < folded then
	rows = call('LRANGE', P .. 'uk', from, from + most - 1)
end
local rest = most - #rows
if rest > 0 then
	local at = math.max(from - folded, 0)
	for _, row in ipairs(call('LRANGE', P .. 'ul', at, at + rest - 1)) do
		rows[#rows + 1] = row
	end
end
return { 'ok', head[1] or '0', text(clock()), text(trimmed), text(folded), rows, text(math.max(from, 0) + trimmed) }
