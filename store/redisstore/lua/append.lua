-- Appends ARGV[10] events to the log ARGV[1], as the batch ARGV[11]. ARGV[2] is the sequence that the last event must
-- have, or -1. ARGV[4] is the fencing token of the session ARGV[3]. ARGV[6] is the number of the batch, which grows
-- with each batch that the writer ARGV[5] sends; it is 0 without events. ARGV[7] is how many milliseconds the events
-- are kept, or 0. The append is announced on the channel ARGV[8], as from ARGV[9].
--
--   e:LOG  stream  batches of events, each with the id LAST-COUNT: the sequence of its last event and how many it has,
--                  in the field e; t: the microseconds of their commit, if events without a time get that
--   l:LOG  hash    dropped, if it was; last: the last sequence; first: the first one, if the log was trimmed;
--                  f<session>: the highest token seen; b<session>: a map in MessagePack, from the writers that held
--                  that token to the numbers of their last batches and the sequences they ended at
local log, expect, session, token, writer, batch, keep = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7]
local meta, stream = P .. 'l:' .. log, P .. 'e:' .. log
local found = call('HMGET', meta, 'last', 'f' .. session, 'b' .. session, 'dropped')
if found[4] then
	return { 'dropped' }
end
local last, seen = tonumber(found[1]) or 0, tonumber(found[2]) or 0

if token < seen then
	return { 'fenced', text(seen) }
end
local batches = token == seen and found[3] and cmsgpack.unpack(found[3]) or {}
local before = batches[writer]
if batch > 0 and before and batch <= before[1] then
	return { 'there', text(before[2]) }
end
if expect >= 0 and expect ~= last then
	return { 'stale', text(last) }
end

local count, now = tonumber(ARGV[10]), text(clock())
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HDEL', key) and 'HDEL' or not may('HSET', key) and 'HSET' or not may('PEXPIRE', key) and 'PEXPIRE' or not may('XADD', key) and 'XADD'
		or not may('ZADD', key) and 'ZADD'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
if count > 0 then
	last = last + count
	call('XADD', stream, text(last) .. '-' .. ARGV[10], 'e', ARGV[11])
end
if batch > 0 then
	batches[writer] = { batch, last }
	call('HSET', meta, 'last', text(last), 'f' .. session, ARGV[4], 'b' .. session, cmsgpack.pack(batches))
elseif token > seen then
	call('HSET', meta, 'last', text(last), 'f' .. session, ARGV[4])
	call('HDEL', meta, 'b' .. session)
end
if count > 0 then
	if keep ~= '0' then
		call('PEXPIRE', stream, keep)
	end
	call('ZADD', P .. 'i:logs', 'LT', now, log)
	return { 'ok', text(last), announce(ARGV[8], text(last) .. ' ' .. ARGV[9]) }
end
return { 'ok', text(last) }
