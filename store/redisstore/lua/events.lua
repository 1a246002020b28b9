-- Answers the first and the last sequence of the log ARGV[1], and up to ARGV[3] events from sequence ARGV[2] on.
local stream = P .. 'e:' .. ARGV[1]
local found = call('HMGET', P .. 'l:' .. ARGV[1], 'last', 'dropped')
if found[2] then
	return { 'dropped' }
end
local last = found[1] or '0'
local first = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
first = first and string.match(first[1], '^%d+') or text(tonumber(last) + 1)
local events = {}
if ARGV[3] ~= '0' then
	events = call('XRANGE', stream, ARGV[2], '+', 'COUNT', ARGV[3])
end
return { 'ok', first, last, events }
