-- Answers up to ARGV[1] sessions of a bucket that need a worker now, the longest due first: id, root, agent, kind, since.
-- The index may be early for the lease of a session that runs; it is set right here.
local now, limit, key = clock(), tonumber(ARGV[1]), P .. 'i:due'
while true do
	local list, right = {}, true
	local members = call('ZRANGEBYSCORE', key, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit)
	for i = 1, #members, 2 do
		local id = members[i]
		local row = load(id)
		local since = row.kind == 'crashed' and row.till or row.due
		if since ~= tonumber(members[i + 1]) then
			call('ZADD', key, text(since), id)
			call('HSET', P .. 's:' .. id, 'due', text(since))
			right = false
		else
			for _, field in ipairs({ id, row.root, row.agent, row.kind, text(since) }) do
				list[#list + 1] = field
			end
		end
	end
	if right then
		return { 'ok', list }
	end
end
