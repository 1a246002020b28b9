-- Gives a session tree its visible names. put.lua has stored it under names that begin with ARGV[1]. ARGV[2] is the
-- root, ARGV[3] the channel of its log. ARGV[4] is how many milliseconds sessions stay after they expire, and ARGV[5]
-- events after the last one; 0 means forever. ARGV[6] is the log. ARGV[7] is the number of sessions, whose ids follow,
-- and then the names of the keys.
local token, root, channel = ARGV[1], ARGV[2], ARGV[3]
local keep, keep_events, log, n = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local done = P .. 'x:' .. token
if call('EXISTS', done) == 1 then
	return { 'ok' }
end
for i = 8, 7 + n do
	local there = stored(ARGV[i])
	if there[1] then
		return { 'exists', there, ARGV[i] }
	end
	local none = missing(ARGV[i])
	if none[1] == 'removed' then
		return none
	end
end
if tonumber(call('HGET', P .. 'l:' .. log, 'last') or '0') > 0 then
	return { 'log' }
end
for i = 8 + n, #ARGV do
	if call('EXISTS', P .. 'y:' .. token .. ':' .. ARGV[i]) == 0 then
		return { 'lost' }
	end
end

do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('HKEYS', key) and 'HKEYS' or not may('HMGET', key) and 'HMGET'
		or not may('HSET', key) and 'HSET' or not may('PERSIST', key) and 'PERSIST' or not may('PEXPIRE', key) and 'PEXPIRE' or not may('PEXPIREAT', key) and 'PEXPIREAT'
		or not may('RENAME', key) and 'RENAME' or not may('SADD', key) and 'SADD' or not may('SET', key) and 'SET' or not may('SREM', key) and 'SREM'
		or not may('TIME', key) and 'TIME' or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
call('UNLINK', P .. 'l:' .. log) -- it has only fencing tokens, or was dropped
for i = 8 + n, #ARGV do
	call('RENAME', P .. 'y:' .. token .. ':' .. ARGV[i], P .. ARGV[i])
	call('PERSIST', P .. ARGV[i])
end
for i = 8, 7 + n do
	local id = ARGV[i]
	local row, list = load(id)
	call('HSET', P .. 's:' .. id, 'version', list[3] .. ' ' .. text(clock()), 'serves', (load(root)).agent)
	for _, name in ipairs(listed(row)) do
		call('ZADD', P .. 'i:' .. name, text(row.created), id)
	end
	if row.due_kind then
		awaken(id, row.due, row.due_kind)
	end
	if id == root then
		sweeping(id, row, row.updated)
	end
	for _, letter in ipairs(keep > 0 and (row.expires or 0) > 0 and everything or {}) do
		call('PEXPIREAT', P .. letter .. ':' .. id, text(math.floor(row.expires / 1000) + keep))
	end
end
for _, pending in ipairs(call('HKEYS', P .. 'w:' .. root)) do
	local about = header(call('HGET', P .. 'w:' .. root, pending))
	for _, name in ipairs(about[7]) do
		call('ZADD', P .. 'i:' .. name, text(about[2]), root .. '\n' .. pending)
	end
end
if call('EXISTS', P .. 'e:' .. log) == 1 then
	call('ZADD', P .. 'i:logs', text(clock()), log)
end
if keep_events > 0 then
	call('PEXPIRE', P .. 'e:' .. log, keep_events)
end
call('SET', done, '', 'PX', 120000)
return { 'ok', announce(channel, (call('HGET', P .. 'l:' .. log, 'last') or '0') .. ' ') }
