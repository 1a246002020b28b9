-- Removes the session ARGV[1] and everything it owns, unless it is running.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if running(row, clock()) then
	return { 'running', list }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HDEL', key) and 'HDEL' or not may('HGET', key) and 'HGET' or not may('HKEYS', key) and 'HKEYS'
		or not may('SREM', key) and 'SREM' or not may('UNLINK', key) and 'UNLINK' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
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
