-- Appends events to the log ARGV[1]: the data of each from ARGV[9] on. ARGV[2] is the sequence that the last event must
-- have, or -1; ARGV[3] numbers the attempts of the Store ARGV[8], which makes one at a time; ARGV[5] is the fencing token of the session ARGV[4], if that is not empty;
-- ARGV[6] is for how many milliseconds the events are kept, or 0. Followers hear of it on the channel ARGV[7], from ARGV[8].
--
--   e:LOG  stream  events, with the ids SEQUENCE-0
--   l:LOG  hash    last: the last sequence; f<session>: the highest token seen;
--                  a<store>: its last attempt and the sequence that it ended at
local log, expect, attempt, session, token, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6]
local meta, stream = P .. 'l:' .. log, P .. 'e:' .. log
local found = call('HMGET', meta, 'last', 'a' .. ARGV[8], 'f' .. session)
local last = tonumber(found[1]) or 0

local attempted, ended = string.match(found[2] or '', '^(%d+) (%d+)$')
if attempted and attempt <= tonumber(attempted) then
	return { 'ok', ended } -- it was lost on its way back, or nobody waits for it any more
end
local seen = tonumber(found[3]) or 0
if session ~= '' and token < seen then
	return { 'fenced', text(seen) }
end
if expect >= 0 and expect ~= last then
	return { 'stale', text(last) }
end

for i = 9, #ARGV do
	last = last + 1
	call('XADD', stream, text(last) .. '-0', 'e', ARGV[i])
end
call('HSET', meta, 'last', text(last), 'a' .. ARGV[8], ARGV[3] .. ' ' .. text(last))
if session ~= '' and token > seen then
	call('HSET', meta, 'f' .. session, token)
end
if #ARGV >= 9 then
	if keep ~= '0' then
		call('PEXPIRE', stream, keep)
	end
	call('PUBLISH', ARGV[7], text(last) .. ' ' .. ARGV[8])
end
return { 'ok', text(last) }
