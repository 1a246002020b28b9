-- Removes the record ARGV[2] if it has the version ARGV[3], -1 for any. ARGV[4] names the attempt. Returns the time and
-- the record if its version is another one.
local key, seen, attempt = ARGV[2], ARGV[3], P .. 'x:' .. ARGV[4]
if call('EXISTS', attempt) == 1 then
	return { 'ok' } -- the answer was lost on its way back
end
local there = record(key)
if not there then
	return { 'none' }
elseif seen ~= '-1' and seen ~= there[2] then
	return { 'stale', text(NOW), there }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('SET', key) and 'SET' or not may('UNLINK', key) and 'UNLINK' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
remove(there[1], key)
call('SET', attempt, '', 'PX', 120000)
return { 'ok' }
