-- Removes the keys ARGV[2] and following of a failed import, whose names begin with ARGV[1].
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('UNLINK', key) and 'UNLINK'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 2, #ARGV do
	call('UNLINK', P .. 'y:' .. ARGV[1] .. ':' .. ARGV[i])
end
return { 'ok' }
