-- Adds elements to a key of a session tree that is being imported, under the name ARGV[1], which no reader uses.
-- ARGV[2] is the kind of the key, ARGV[3] how many elements it has already, ARGV[4] how many milliseconds it stays. The
-- rest are the elements: in hashes and sorted sets each after its name or score, in streams each after its id.
local key, kind, before = P .. 'y:' .. ARGV[1], ARGV[2], tonumber(ARGV[3])
local width = kind == 'list' and 1 or 2
local now
if kind == 'list' then
	now = call('LLEN', key)
elseif kind == 'hash' then
	now = call('HLEN', key)
elseif kind == 'zset' then
	now = call('ZCARD', key)
else
	now = call('XLEN', key)
end
if now == before + (#ARGV - 4) / width then
	return { 'ok' } -- the answer was lost on its way back
elseif now ~= before then
	return { 'lost' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HSET', key) and 'HSET' or not may('PEXPIRE', key) and 'PEXPIRE' or not may('RPUSH', key) and 'RPUSH' or not may('XADD', key) and 'XADD'
		or not may('ZADD', key) and 'ZADD'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 5, #ARGV, width do
	if kind == 'list' then
		call('RPUSH', key, ARGV[i])
	elseif kind == 'hash' then
		call('HSET', key, ARGV[i], ARGV[i + 1])
	elseif kind == 'zset' then
		call('ZADD', key, ARGV[i], ARGV[i + 1])
	else
		call('XADD', key, ARGV[i], 'e', ARGV[i + 1])
	end
end
call('PEXPIRE', key, ARGV[4])
return { 'ok' }
