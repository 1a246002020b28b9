-- Removes the keys ARGV[2] and following of a failed import, whose names begin with ARGV[1].
for _, right in ipairs({ 'UNLINK' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
for i = 2, #ARGV do
	call('UNLINK', P .. 'y:' .. ARGV[1] .. ':' .. ARGV[i])
end
return { 'ok' }
