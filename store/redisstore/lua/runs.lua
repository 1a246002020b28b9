-- Returns up to ARGV[3] runs of the session ARGV[1]: those after turn ARGV[2], or if ARGV[4] is '1', those before it,
-- the newest first. Each is its id and what run returns.
local id, last, n = ARGV[1], math.max(tonumber(ARGV[2]), 0), tonumber(ARGV[3])
if call('EXISTS', P .. 's:' .. id) == 0 then
	return missing(id)
end
local from, to, step = last + 1, last + n, 1
if ARGV[4] == '1' then
	from, to, step = math.min(last - 1, call('LLEN', P .. 'o:' .. id)), 1, -1
	to = math.max(from - n + 1, 1)
end
local list = {}
if math.max(from, to) > 0 then
	local ids = call('LRANGE', P .. 'o:' .. id, math.max(math.min(from, to), 1) - 1, math.max(from, to) - 1)
	for i = step == 1 and 1 or #ids, step == 1 and #ids or 1, step do
		local fields = run(id, ids[i])
		list[#list + 1] = ids[i]
		list[#list + 1] = fields[1]
		list[#list + 1] = fields[2]
		list[#list + 1] = fields[3]
	end
end
return { 'ok', list }
