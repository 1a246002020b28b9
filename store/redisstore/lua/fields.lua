-- Answers fields of a hash of the session ARGV[1]: ARGV[2] is the hash's letter, the rest are the fields. Without any it
-- answers the whole hash.
if call('EXISTS', P .. 's:' .. ARGV[1]) == 0 then
	return missing(ARGV[1])
end
local key = P .. ARGV[2] .. ':' .. ARGV[1]
if #ARGV == 2 then
	return { 'ok', call('HGETALL', key) }
end
return { 'ok', call('HMGET', key, unpack(ARGV, 3)) }
