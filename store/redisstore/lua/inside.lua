-- Returns the row of the session ARGV[1] and at most ARGV[3] states of its chain, from the position ARGV[2] on.
local row, list = load(ARGV[1])
if not row then
	return missing(ARGV[1])
end
local from = math.max(tonumber(ARGV[2]) - row.first, 0)
local states = {}
if tonumber(ARGV[3]) > 0 then
	states = call('LRANGE', P .. 'f:' .. ARGV[1], from, from + ARGV[3] - 1)
end
return { 'ok', list, states }
