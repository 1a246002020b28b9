-- Changes the bucket's usage if it has the version ARGV[1]. ARGV[2] names the attempt. The changes follow, each a word
-- with its arguments: put a sum with a key and a value; drop a key; fold, or trim, so many of the oldest rows; set the
-- row at an index of a list to a value.
local attempt = P .. 'x:' .. ARGV[2]
if call('EXISTS', attempt) == 1 then
	return { 'ok' } -- the answer was lost on its way back
end
if (call('HGET', P .. 'uh', 'version') or '0') ~= ARGV[1] then
	return { 'stale' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HDEL', key) and 'HDEL' or not may('HSET', key) and 'HSET' or not may('LRANGE', key) and 'LRANGE' or not may('LSET', key) and 'LSET'
		or not may('LTRIM', key) and 'LTRIM' or not may('RPUSH', key) and 'RPUSH' or not may('SET', key) and 'SET' or not may('ZADD', key) and 'ZADD'
		or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
call('HINCRBY', P .. 'uh', 'version', 1)
call('SET', attempt, '', 'PX', 120000)
local i = 3
while ARGV[i] do
	local word = ARGV[i]
	if word == 'put' then
		call('HSET', P .. 'us', ARGV[i + 1], ARGV[i + 2])
		call('ZADD', P .. 'uz', 0, ARGV[i + 1])
		i = i + 3
	elseif word == 'drop' then
		call('HDEL', P .. 'us', ARGV[i + 1])
		call('ZREM', P .. 'uz', ARGV[i + 1])
		i = i + 2
	elseif word == 'fold' then
		local n = tonumber(ARGV[i + 1])
		push(P .. 'uk', call('LRANGE', P .. 'ul', 0, n - 1), 1)
		call('LTRIM', P .. 'ul', n, -1)
		i = i + 2
	elseif word == 'trim' then
		call('LTRIM', P .. 'uk', tonumber(ARGV[i + 1]), -1)
		call('HINCRBY', P .. 'uh', 'trimmed', ARGV[i + 1])
		i = i + 2
	else
		call('LSET', P .. ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
		i = i + 4
	end
end
return { 'ok' }
