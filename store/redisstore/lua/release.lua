-- Deletes the note that the session ARGV[1] is kept in bucket ARGV[2].
local key = P .. 'to:' .. ARGV[1]
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('DEL', key) and 'DEL'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
if call('GET', key) == ARGV[2] then
	call('DEL', key)
end
return { 'ok' }
