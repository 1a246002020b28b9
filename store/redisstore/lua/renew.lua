-- Renews the lease of the session ARGV[1] for ARGV[3] microseconds if ARGV[2] is its fencing token and it was not
-- released. Returns the run that holds it and the stop request.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if ARGV[2] == '0' or tonumber(ARGV[2]) ~= row.token or not row.owner then
	return { 'fenced', list }
end
local till = clock() + tonumber(ARGV[3])
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('SADD', key) and 'SADD' or not may('SREM', key) and 'SREM'
		or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
call('HSET', P .. 's:' .. id, 'until', text(till), 'ttl', ARGV[3])
if row.due_kind == 'crashed' and till < row.due then
	call('HSET', P .. 's:' .. id, 'due', text(till))
	awaken(id, till, 'crashed')
end
return { 'ok', row.run or '', row.stop }
