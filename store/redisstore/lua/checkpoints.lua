-- Returns up to ARGV[3] checkpoints of the session ARGV[1]: those after number ARGV[2], or if ARGV[4] is '1', those
-- before it, the newest first. Each is its id and its record.
local id, last, n, newest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local key = P .. 'n:' .. id
if call('EXISTS', P .. 's:' .. id) == 0 then
	return missing(id)
end
-- How many precede the page, or in the other direction its first one.
local low, high = 0, call('LLEN', key)
if last == 0 then
	high = 0
elseif newest and last >= 2147483647 then
	low = high
end
while low < high do
	local middle = math.floor((low + high) / 2)
	local number = decoded(call('HGET', P .. 'c:' .. id, 'c' .. call('LINDEX', key, middle)))[1]
	if number < last or number == last and not newest then
		low = middle + 1
	else
		high = middle
	end
end
local ids = {}
if not newest then
	ids = call('LRANGE', key, low, low + n - 1)
elseif low > 0 then
	ids = call('LRANGE', key, math.max(low - n, 0), low - 1)
end
local list = {}
for i = newest and #ids or 1, newest and 1 or #ids, newest and -1 or 1 do
	list[#list + 1] = ids[i]
	list[#list + 1] = call('HGET', P .. 'c:' .. id, 'c' .. ids[i])
end
return { 'ok', list }
