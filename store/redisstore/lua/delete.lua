-- Removes the session ARGV[1] and everything it owns, unless it is running.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if running(row, clock()) then
	return { 'running', list }
end
for _, right in ipairs({ 'EXISTS', 'HDEL', 'HGET', 'HKEYS', 'SREM', 'UNLINK', 'ZREM' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
unlist(id, row)
for _, pending in ipairs(call('HKEYS', P .. 'k:' .. id)) do
	call('HDEL', P .. 'w:' .. row.root, pending)
end
for _, letter in ipairs(everything) do
	call('UNLINK', P .. letter .. ':' .. id)
end
return { 'ok', row.root }
