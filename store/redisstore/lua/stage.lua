-- Stages pieces for the session ARGV[1] if ARGV[2] is the fencing token of the run that holds it. The rest are their
-- names and their data.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if ARGV[2] == '0' or tonumber(ARGV[2]) ~= row.token or row.status ~= 'active' then
	return { 'fenced', list }
end
local key = P .. 'g:' .. id
local n = call('HLEN', key)
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HEXISTS', key) and 'HEXISTS' or not may('HSET', key) and 'HSET'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
for i = 3, #ARGV, 2 do
	if call('HEXISTS', key, ARGV[i]) == 0 then
		n = n + 1
		call('HSET', key, ARGV[i], n .. ':' .. ARGV[i + 1])
	end
end
return { 'ok' }
