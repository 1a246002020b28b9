-- Renews the lease of the session ARGV[1] for ARGV[3] microseconds if ARGV[2] is its fencing token. Returns the run
-- that holds it and the stop request.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if ARGV[2] == '0' or tonumber(ARGV[2]) ~= row.token then
	return { 'fenced', list }
end
local till = clock() + tonumber(ARGV[3])
for _, right in ipairs({ 'EXISTS', 'HGET', 'SADD', 'SREM', 'ZADD', 'ZREM' }) do
	if not redis.acl_check_cmd(right, KEYS[1]) then
		return redis.error_reply('NOPERM ' .. right)
	end
end
-- Nothing fails from here on.
call('HSET', P .. 's:' .. id, 'until', text(till), 'ttl', ARGV[3])
if row.due_kind == 'crashed' and till < row.due then
	call('HSET', P .. 's:' .. id, 'due', text(till))
	awaken(id, till, 'crashed')
end
return { 'ok', row.run or '', row.stop }
