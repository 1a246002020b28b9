-- Writes a step of the session whose row is KEYS[1]. The client knows the row and has computed the new head ARGV[4].
-- ARGV[1] is the row's version now and ARGV[2] its next version. ARGV[3] is a + and the microseconds for which the
-- lease is renewed, or empty. ARGV[5] is the checkpoint's id and ARGV[6] its record, without the time that precedes it.
-- ARGV[7] is s<step>. The rest are messages, followed by the change of the state if it changes, and the last one. KEYS[2] to KEYS[4] are
-- the session's c, n and m. KEYS[5] is its g if the staged pieces are dropped, else a name that no key has. The next
-- key is the list ul, to which the last argument is appended unless it is empty: a row of usage. The next
-- key, if the state changes, is its f. The last three keys, if the step has events, are the log's l and e, and i:logs.
-- ARGV[8] to ARGV[14] are then the log's name, how many events there are, their batch, a + if some get the time, how
-- many milliseconds they are kept or 0, and the channel on which they are announced, as from the next argument; the head
-- and the checkpoint's record lack the log's last sequence, which comes at their ends.
--
-- Returns the time and, if the lease is not renewed or there are events, a space and its end, and then for events their
-- last sequence and what announce returns, each after a space. Returns an empty text if nothing was written, because the
-- row is not the one that the client knows, or the step or the checkpoint exists already: the client then reads the row.
-- Returns dropped if the log was. The keys are those of common.lua. This script does without that file, since it runs
-- for every step. For the same reason it returns a text, which costs the server less than a list, takes few arguments,
-- and makes few texts: Lua hashes all of each.
local call, row, checkpoint, first, last = redis.call, KEYS[1], ARGV[5], 8, #ARGV - 1
local found = call('HMGET', row, 'version', 'until')
if found[1] ~= ARGV[1] then
	return ''
end
local head, record, meta, states, sequence = ARGV[4], ARGV[6], KEYS[#KEYS - 2], #KEYS % 3 == 1 and KEYS[7], nil
if #KEYS > 7 then
	local log = call('HMGET', meta, 'last', 'dropped')
	if log[2] then
		return 'dropped'
	end
	sequence = string.format('%.0f', (log[1] or 0) + ARGV[9])
	head, record, first = head .. cmsgpack.pack('log', tonumber(sequence)), record .. sequence .. ']', 15
end
local t = call('TIME')
local stamp, till = t[1] .. t[2], ARGV[3]
if #t[2] < 6 then
	stamp = t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('DEL', key) and 'DEL' or not may('HDEL', key) and 'HDEL' or not may('HSET', key) and 'HSET' or not may('PEXPIRE', key) and 'PEXPIRE'
		or not may('RPUSH', key) and 'RPUSH' or not may('XADD', key) and 'XADD' or not may('ZADD', key) and 'ZADD'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
if call('HSETNX', KEYS[2], 'c' .. checkpoint, stamp .. record) == 0 then
	return ''
end
if call('HSETNX', KEYS[2], ARGV[7], '') == 0 then
	call('HDEL', KEYS[2], 'c' .. checkpoint) -- the step exists already, and stays
	return ''
end
call('RPUSH', KEYS[3], checkpoint)
if till ~= found[2] then
	if till == '' then
		till = found[2]
		if string.sub(till, 1, 1) == '+' then
			call('HSET', row, 'ttl', string.sub(till, 2))
			till = string.format('%.0f', call('HMGET', row, 'updated')[1] + till)
		end
	elseif stamp + till < tonumber(call('HMGET', row, 'due')[1]) then -- a lease of the same length does not end earlier
		local due = string.format('%.0f', stamp + till)
		local P, id = string.match(row, '^([^}]*}:)s:(.*)$')
		call('HSET', row, 'due', due)
		call('ZADD', P .. 'i:due:' .. call('HMGET', row, 'serves')[1], due, id)
	end
	call('HSET', row, 'until', till)
end
call('HSET', row, 'head', head, 'version', ARGV[2], 'updated', stamp)
if states then
	call('RPUSH', states, ARGV[last])
	last = last - 1
end
for i = first, last, 2 do
	if i < last then
		call('RPUSH', KEYS[4], stamp .. ARGV[i], stamp .. ARGV[i + 1])
	else
		call('RPUSH', KEYS[4], stamp .. ARGV[i])
	end
end
call('DEL', KEYS[5])
if ARGV[#ARGV] ~= '' then
	call('RPUSH', KEYS[6], stamp .. ARGV[#ARGV])
end
if not sequence then
	return ARGV[3] ~= '' and stamp or stamp .. ' ' .. till
end
local stream = KEYS[#KEYS - 1]
if ARGV[11] == '' then
	call('XADD', stream, sequence .. '-' .. ARGV[9], 'e', ARGV[10])
else
	call('XADD', stream, sequence .. '-' .. ARGV[9], 'e', ARGV[10], 't', stamp)
end
call('HSET', meta, 'last', sequence)
if ARGV[12] ~= '0' then
	call('PEXPIRE', stream, ARGV[12])
end
call('ZADD', KEYS[#KEYS], 'LT', stamp, ARGV[8])
local answer = redis.pcall('PUBLISH', ARGV[13], sequence .. ' ' .. ARGV[14])
return stamp .. ' ' .. till .. ' ' .. sequence .. ' ' .. (type(answer) == 'table' and answer.err or '')
