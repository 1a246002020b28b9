-- Returns up to ARGV[1] sessions of a bucket for each of the agents ARGV[4] and following, or for every agent if there
-- are none, from each of an agent's indexes. The sessions need a worker now and come after the one due since ARGV[2]
-- with the id ARGV[3], the longest due first. Each is its id, root, agent, kind and since. The index entry of a running
-- session may be earlier than the end of its lease; it is corrected here.
local now, limit, from, last = clock(), tonumber(ARGV[1]), ARGV[2], ARGV[3]
local names = {}
for i = 4, #ARGV do
	names[#names + 1] = 'i:due:' .. ARGV[i]
	names[#names + 1] = 'i:wait:' .. ARGV[i]
end
if #ARGV < 4 then
	names = call('SMEMBERS', P .. 'i:due')
end
do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('HMGET', key) and 'HMGET' or not may('HSET', key) and 'HSET' or not may('TIME', key) and 'TIME' or not may('ZADD', key) and 'ZADD'
		or not may('ZRANGEBYSCORE', key) and 'ZRANGEBYSCORE'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
local list = {}

-- look returns the row of a session that an index has at a time, and since when it is due. It corrects the index.
local function look(name, id, at)
	-- A row that does not decode is an error for readers of the session.
	local read, row = pcall(load, id)
	row = read and row or { root = id, due_kind = 'crashed', due = at, till = at, lease = 0 }
	local since = row.due_kind == 'crashed' and row.till or row.due
	if since ~= at then
		call('ZADD', P .. name, text(since), id)
		call('HSET', P .. 's:' .. id, 'due', text(since))
	end
	return row, since
end

-- add lists a session, unless it does not come after the one of the arguments.
local function add(name, id, row, since)
	if since == tonumber(from) and not less(last, id) then
		return 0
	end
	for _, field in ipairs({ id, row.root, string.match(name, '^i:%a+:(.*)$'), row.due_kind, text(since) }) do
		list[#list + 1] = field
	end
	return 1
end

-- overtaken lists the sessions that became due, or whose lease was taken, before the clock was set back. No other
-- session is in this index for a time that is more than a lease away; most leases are shorter than the minute that is
-- left out.
local function overtaken(name, found)
	local low, offset = math.max(tonumber(from) or 0, now + 60000000), 0
	while found < limit do
		local members = call('ZRANGEBYSCORE', P .. name, text(low), '+inf', 'WITHSCORES', 'LIMIT', offset, limit)
		for i = 1, #members, 2 do
			local row, since = look(name, members[i], tonumber(members[i + 1]))
			if found < limit and (row.due_kind ~= 'crashed' or ahead(since, row.lease, now)) then
				found = found + add(name, members[i], row, since)
			end
		end
		offset = offset + limit
		if #members < 2 * limit then
			return
		end
	end
end

for _, name in ipairs(names) do
	local found, offset, before = 0, 0, #list
	while found < limit do
		local members = call('ZRANGEBYSCORE', P .. name, from, text(now), 'WITHSCORES', 'LIMIT', offset, limit)
		local moved = false
		for i = 1, #members, 2 do
			local id, at = members[i], tonumber(members[i + 1])
			local row, since = look(name, id, at)
			offset = offset + 1
			if since ~= at then
				offset, moved = offset - 1, moved or since <= now
			elseif found < limit then
				found = found + add(name, id, row, since)
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
	if string.sub(name, 1, 6) == 'i:due:' then
		overtaken(name, found)
	end
end
return { 'ok', list }
