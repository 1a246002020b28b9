-- Gives the keys of the removed tree of the root ARGV[1] their original names again. ARGV[2] is how many milliseconds
-- sessions stay after they expire, and ARGV[3] events after the last one; 0 means forever. ARGV[4] names the attempt.
-- Returns the root's row.
local root, keep, keep_events, attempt = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), P .. 'x:' .. ARGV[4]
if call('EXISTS', attempt) == 1 then
	return { 'ok', stored(root) }
end
local there, list = load(root)
if there then
	return { there.root == root and 'exists' or 'child', list, there.root }
end
local gone = missing(root)
if gone[1] ~= 'removed' then
	return gone
elseif gone[3] ~= root then
	return { 'child', {}, gone[3] }
end
local key = gone[2]
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('HKEYS', key) and 'HKEYS' or not may('HMGET', key) and 'HMGET'
		or not may('HSET', key) and 'HSET' or not may('LRANGE', key) and 'LRANGE' or not may('PERSIST', key) and 'PERSIST' or not may('PEXPIRE', key) and 'PEXPIRE'
		or not may('PEXPIREAT', key) and 'PEXPIREAT' or not may('RENAME', key) and 'RENAME' or not may('SADD', key) and 'SADD' or not may('SET', key) and 'SET'
		or not may('SREM', key) and 'SREM' or not may('TIME', key) and 'TIME' or not may('UNLINK', key) and 'UNLINK' or not may('ZADD', key) and 'ZADD'
		or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local before, ids = 'z:' .. key .. ':', {}
for _, name in ipairs(call('LRANGE', P .. 't:' .. key, 0, -1)) do
	if string.sub(name, 1, #before) == before then
		local original = string.sub(name, #before + 1)
		if call('EXISTS', P .. name) == 1 then
			call('RENAME', P .. name, P .. original)
			call('PERSIST', P .. original)
		end
		if string.sub(original, 1, 2) == 's:' then
			ids[#ids + 1] = string.sub(original, 3)
		end
	else
		call('UNLINK', P .. name)
	end
end
call('ZREM', P .. 'i:gone:' .. (call('HGET', P .. 'z:' .. key, 'thread') or ''), key)
call('UNLINK', P .. 't:' .. key, P .. 'z:' .. key)
call('ZREM', P .. 'i:removed', key)

local now = clock()
local base, version = cmsgpack.unpack(call('HGET', P .. 's:' .. root, 'base')), call('HGET', P .. 's:' .. root, 'version')
if (base.expires or 0) <= now then
	base.expires = nil
end
local number, born = string.match(version, '^(%d+) (%d+)$')
local lease = stored(root)
call('HSET', P .. 's:' .. root, 'base', cmsgpack.pack(base), 'version', text(number + 1) .. ' ' .. born, 'updated', text(now), 'until', lease[5], 'ttl', lease[10])
for _, id in ipairs(ids) do
	local row = load(id)
	for _, name in ipairs(listed(row)) do
		call('ZADD', P .. 'i:' .. name, text(row.created), id)
	end
	if row.due_kind then
		awaken(id, row.due, row.due_kind)
	end
	for _, letter in ipairs(keep > 0 and (row.expires or 0) > 0 and everything or {}) do
		call('PEXPIREAT', P .. letter .. ':' .. id, text(math.floor(row.expires / 1000) + keep))
	end
end
sweeping(root, base, now)
for _, pending in ipairs(call('HKEYS', P .. 'w:' .. root)) do
	local about = header(call('HGET', P .. 'w:' .. root, pending))
	for _, name in ipairs(about[7]) do
		call('ZADD', P .. 'i:' .. name, text(about[2]), root .. '\n' .. pending)
	end
end
local log = logname(root, base)
call('PERSIST', P .. 'l:' .. log)
call('PERSIST', P .. 'e:' .. log)
if keep_events > 0 then
	call('PEXPIRE', P .. 'e:' .. log, keep_events)
end
call('SET', attempt, '', 'PX', 120000)
return { 'ok', stored(root) }
