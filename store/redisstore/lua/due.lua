-- Returns up to ARGV[1] sessions of a bucket for each of the agents ARGV[4] and following, or for every agent if there
-- are none. The sessions need a worker now and come after the one due since ARGV[2] with the id ARGV[3], the longest
-- due first. Each is its id, root, agent, kind and since. The index entry of a running session may be earlier than the
-- end of its lease; it is corrected here.
local now, limit, from, last = clock(), tonumber(ARGV[1]), ARGV[2], ARGV[3]
local names = {}
for i = 4, #ARGV do
	names[#names + 1] = 'i:due:' .. ARGV[i]
end
if #ARGV < 4 then
	names = call('SMEMBERS', P .. 'i:due')
end
local list = {}
for _, name in ipairs(names) do
	local agent, found, offset, before = string.sub(name, #'i:due:' + 1), 0, 0, #list
	while found < limit do
		local members = call('ZRANGEBYSCORE', P .. name, from, text(now), 'WITHSCORES', 'LIMIT', offset, limit)
		local moved = false
		for i = 1, #members, 2 do
			local id, at = members[i], tonumber(members[i + 1])
			-- A row that does not decode is an error for readers of the session.
			local read, row = pcall(load, id)
			row = read and row or { root = id, due_kind = 'crashed', due = at, till = at }
			local since = row.due_kind == 'crashed' and row.till or row.due
			offset = offset + 1
			if since ~= at then
				call('ZADD', P .. name, text(since), id)
				call('HSET', P .. 's:' .. id, 'due', text(since))
				offset, moved = offset - 1, moved or since <= now
			elseif found < limit and (at ~= tonumber(from) or less(last, id)) then
				found = found + 1
				for _, field in ipairs({ id, row.root, agent, row.due_kind, text(since) }) do
					list[#list + 1] = field
				end
			end
		end
		if moved then -- it moved among the due sessions: list again, in order
			found, offset = 0, 0
			for i = #list, before + 1, -1 do
				list[i] = nil
			end
		elseif #members < 2 * limit then
			break
		end
	end
end
return { 'ok', list }
