-- Returns the version of the session ARGV[1], and its runs whose texts are in its messages from index ARGV[2] on, the
-- newest first: each is its id and what run returns. They follow those whose texts are in earlier messages.
local id, from = ARGV[1], tonumber(ARGV[2])
local version = call('HGET', P .. 's:' .. id, 'version')
if not version then
	return missing(id)
end
local key, list = P .. 'o:' .. id, {}
for i = call('LLEN', key) - 1, 0, -1 do
	local name = call('LINDEX', key, i)
	local at = text_at(call('HGET', P .. 'r:' .. id, 'd' .. name))
	if at > from then
		local fields = run(id, name)
		list[#list + 1] = name
		list[#list + 1] = fields[1]
		list[#list + 1] = fields[2]
		list[#list + 1] = fields[3]
	elseif at > 0 then
		break
	end
end
return { 'ok', version, list }
