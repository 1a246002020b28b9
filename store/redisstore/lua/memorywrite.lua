-- Writes a scope that has the version ARGV[2], 0 for none. ARGV[3] is when it is due, or nothing, and ARGV[4] names the
-- attempt. ARGV[5] keys with their values follow, and then the keys to delete. Returns the version.
local seen, due, attempt, puts = ARGV[2], ARGV[3], P .. 'x:' .. ARGV[4], tonumber(ARGV[5])
local done = call('GET', attempt)
if done then
	return { 'ok', done } -- the answer was lost on its way back
end
local there = call('HGET', HEAD, 'version') or '0'
if there ~= seen then
	return { 'stale', there }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HDEL', key) and 'HDEL' or not may('HSET', key) and 'HSET' or not may('SET', key) and 'SET' or not may('ZADD', key) and 'ZADD'
		or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local version = text(math.max(NOW, tonumber(there) + 1))
call('HSET', HEAD, 'version', version, 'updated', text(NOW), 'due', due)
call('ZADD', SCOPES, 0, SCOPE)
if due ~= '' then
	call('ZADD', DUE, due, SCOPE)
else
	call('ZREM', DUE, SCOPE)
end
for i = 6, 5 + 2 * puts, 2 do
	call('HSET', ENTRIES, ARGV[i], ARGV[i + 1])
	call('ZADD', KEYS_OF, 0, ARGV[i])
end
for i = 6 + 2 * puts, #ARGV do
	call('HDEL', ENTRIES, ARGV[i])
	call('ZREM', KEYS_OF, ARGV[i])
end
call('SET', attempt, version, 'PX', 120000)
return { 'ok', version }
