-- Returns up to ARGV[3] scopes between ARGV[1] and ARGV[2], or all that are due if ARGV[4] is 1: for each its kind and
-- name, version, time of update and due time.
local names
if ARGV[4] == '1' then
	names = call('ZRANGEBYSCORE', P .. 'memd', '-inf', text(clock()))
else
	names = call('ZRANGEBYLEX', P .. 'mems', ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
end
local list = {}
for _, name in ipairs(names) do
	local head = call('HMGET', P .. 'memh:' .. name, 'version', 'updated', 'due')
	list[#list + 1] = { name, head[1], head[2], head[3] }
end
return { 'ok', list }
