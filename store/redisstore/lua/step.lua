-- Commits a step to the session ARGV[1], whose row the client knows: it has worked out the new head ARGV[4] for the version
-- ARGV[2]. ARGV[3] is a + and for how many microseconds the lease is renewed, or empty; ARGV[5] is the change of the state, or
-- empty; ARGV[6] and ARGV[7] are s<step> and c<checkpoint>, ARGV[8] and ARGV[9] what stands before and after the time in
-- the checkpoint's record, ARGV[10] is its number and ARGV[11] its id; ARGV[12] is the next version; ARGV[13] says whether
-- what is staged is dropped; ARGV[14] is the time of the session's creation; the rest are messages.
-- Answers the time and, if the lease is not renewed, after a space its end; or an empty text if nothing was done, because the
-- row is not the one the client knows, or the step or the checkpoint is there already: commit.lua deals with that. The keys
-- are those that common.lua tells of, which this script does without, since it is run for every step. For the same reason it
-- answers a text, which costs the server less than a list, and makes few texts: Lua hashes all of each.
local P, id, call = KEYS[1], ARGV[1], redis.call
local row, checkpoints = P .. 's:' .. id, P .. 'c:' .. id
local found = call('HMGET', row, 'version', 'until', 'due', 'born')
if found[1] ~= ARGV[2] or found[4] ~= ARGV[14] then
	return ''
end
local t = call('TIME')
local stamp, till = t[1] .. t[2], ARGV[3]
if #t[2] < 6 then
	stamp = t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
end
if call('HSETNX', checkpoints, ARGV[6], ARGV[11]) == 0 then
	return ''
end
if call('HSETNX', checkpoints, ARGV[7], ARGV[8] .. stamp .. ARGV[9]) == 0 then
	call('HDEL', checkpoints, ARGV[6])
	return ''
end
if till == '' then
	till = found[2]
	if string.sub(till, 1, 1) == '+' then
		till = string.format('%.0f', call('HGET', row, 'updated') + till)
	end
elseif till ~= found[2] and stamp + till < tonumber(found[3]) then -- a lease of the same length does not end earlier
	local due = string.format('%.0f', stamp + till)
	call('HSET', row, 'due', due)
	call('ZADD', P .. 'i:due', due, id)
end
call('HSET', row, 'head', ARGV[4], 'version', ARGV[12], 'updated', stamp, 'until', till)
call('ZADD', P .. 'n:' .. id, ARGV[10], ARGV[11])
if ARGV[5] ~= '' then
	call('RPUSH', P .. 'f:' .. id, ARGV[5])
end
for i = 15, #ARGV, 2 do
	if ARGV[i + 1] then
		call('RPUSH', P .. 'm:' .. id, stamp .. ARGV[i], stamp .. ARGV[i + 1])
	else
		call('RPUSH', P .. 'm:' .. id, stamp .. ARGV[i])
	end
end
if ARGV[13] ~= '' then
	call('DEL', P .. 'g:' .. id)
end
return ARGV[3] ~= '' and stamp or stamp .. ' ' .. till
