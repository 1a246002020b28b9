-- Deletes a scope. ARGV[2] names the attempt.
local attempt = P .. 'x:' .. ARGV[2]
local done = call('GET', attempt)
if done then
	return { 'ok' } -- the answer was lost on its way back
end
local there = call('HGET', HEAD, 'version')
if not there then
	return { 'none' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('SET', key) and 'SET' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
call('UNLINK', HEAD)
call('UNLINK', ENTRIES)
call('UNLINK', KEYS_OF)
call('ZREM', SCOPES, SCOPE)
call('ZREM', DUE, SCOPE)
call('SET', attempt, '', 'PX', 120000)
return { 'ok' }
