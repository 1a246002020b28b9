-- Deletes the note that the session ARGV[1] is kept in bucket ARGV[2].
local key = P .. 'to:' .. ARGV[1]
for _, right in ipairs({ 'DEL' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
if call('GET', key) == ARGV[2] then
	call('DEL', key)
end
return { 'ok' }
