-- Removes up to ARGV[2] of the remaining keys of the removed tree ARGV[1], and with the last of them the record of the
-- removal. Returns how many checkpoints they had, whether these were all, and the ids that are free now.
local key, n = ARGV[1], tonumber(ARGV[2])
if call('EXISTS', P .. 'z:' .. key) == 0 then
	return { 'none' }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('DEL', key) and 'DEL' or not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('LLEN', key) and 'LLEN'
		or not may('LRANGE', key) and 'LRANGE' or not may('LTRIM', key) and 'LTRIM' or not may('UNLINK', key) and 'UNLINK' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local left, checkpoints, free = P .. 't:' .. key, 0, {}
local before = 'z:' .. key .. ':'
for _, name in ipairs(call('LRANGE', left, 0, n - 1)) do
	if string.sub(name, 1, #before + 2) == before .. 'n:' then
		checkpoints = checkpoints + call('LLEN', P .. name)
	end
	call('UNLINK', P .. name)
	if string.sub(name, 1, 2) == 'd:' then
		free[#free + 1] = string.sub(name, 3)
	end
end
call('LTRIM', left, n, -1)
if call('EXISTS', left) == 1 then
	return { 'ok', checkpoints, '', free }
end
call('ZREM', P .. 'i:gone:' .. (call('HGET', P .. 'z:' .. key, 'thread') or ''), key)
call('DEL', P .. 'z:' .. key)
call('ZREM', P .. 'i:removed', key)
return { 'ok', checkpoints, 'all', free }
