-- Notes that the session ARGV[1] is kept in bucket ARGV[2] and not in this one, ARGV[3], unless the session exists here
-- or a note names another bucket. If ARGV[4] is set, the note is replaced even then. Returns the bucket to look in.
local key = P .. 'to:' .. ARGV[1]
if call('EXISTS', P .. 's:' .. ARGV[1]) == 1 then
	return { 'ok', ARGV[3] }
end
local noted = call('GET', key)
if noted and noted ~= ARGV[2] and ARGV[4] ~= '1' then
	return { 'ok', noted }
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('DEL', key) and 'DEL' or not may('SET', key) and 'SET'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
if ARGV[2] == ARGV[3] then
	call('DEL', key)
else
	call('SET', key, ARGV[2])
end
return { 'ok', ARGV[2] }
