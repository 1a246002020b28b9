-- Answers up to ARGV[3] checkpoints of the session ARGV[1], those after number ARGV[2], or if ARGV[4] is '1' those before
-- it, the newest first. Each is its id and its record.
local id, last, n = ARGV[1], ARGV[2], ARGV[3]
if call('EXISTS', P .. 's:' .. id) == 0 then
	return missing(id)
end
local ids
if ARGV[4] == '1' then
	ids = call('ZREVRANGEBYSCORE', P .. 'n:' .. id, '(' .. last, '-inf', 'LIMIT', 0, n)
else
	ids = call('ZRANGEBYSCORE', P .. 'n:' .. id, '(' .. last, '+inf', 'LIMIT', 0, n)
end
local list = {}
for _, checkpoint in ipairs(ids) do
	list[#list + 1] = checkpoint
	list[#list + 1] = call('HGET', P .. 'c:' .. id, 'c' .. checkpoint)
end
return { 'ok', list }
