-- Writes the record ARGV[2] with the index ARGV[3], the value ARGV[4], and a time to live of ARGV[6] microseconds, 0
-- for none, if it has the version ARGV[5]: 0 if there must be no record, -1 for any. ARGV[7] names the attempt. Returns
-- the time and the record without its value, or with its value if its version is another one.
local key, index, seen, ttl, attempt = ARGV[2], ARGV[3], ARGV[5], tonumber(ARGV[6]), P .. 'x:' .. ARGV[7]
local done = call('GET', attempt)
if done then
	return cmsgpack.unpack(done) -- the answer was lost on its way back
end
local there = record(key)
if seen ~= '-1' and seen ~= (there and there[2] or '0') then
	return { 'stale', text(NOW), there or {} }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('HMGET', key) and 'HMGET' or not may('HSET', key) and 'HSET'
		or not may('PEXPIREAT', key) and 'PEXPIREAT' or not may('SET', key) and 'SET' or not may('UNLINK', key) and 'UNLINK' or not may('ZADD', key) and 'ZADD'
		or not may('ZRANGEBYSCORE', key) and 'ZRANGEBYSCORE' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
sweep(10)
local before = call('HGET', named(key), 'index')
if before then
	remove(before, key)
end
local version = text(math.max(NOW, (tonumber(call('GET', P .. 'vn')) or 0) + 1))
local created, expires = there and there[3] or text(NOW), ttl > 0 and NOW + ttl or 0
call('SET', P .. 'vn', version)
call('HSET', named(key), 'index', index, 'version', version, 'created', created, 'updated', text(NOW), 'expires', text(expires), 'value', ARGV[4])
call('ZADD', KEYS_OF, 0, key)
call('ZADD', NAMESPACES, 0, SPACE)
if index ~= '' then
	call('ZADD', PLACES, 0, place(index, key))
end
if ttl > 0 then
	call('PEXPIREAT', named(key), text(math.ceil(expires / 1000)))
	call('ZADD', EXPIRY, text(expires), place(index, key))
else
	call('ZREM', EXPIRY, place(index, key)) -- the entry of an expired record
end
local answer = { 'ok', text(NOW), { index, version, created, text(NOW), text(expires) } }
call('SET', attempt, cmsgpack.pack(answer), 'PX', 120000)
return answer
