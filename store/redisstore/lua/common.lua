-- What every script begins with. KEYS[1] is what the names of all keys of a bucket begin with; no key has that name
-- itself. A session is kept under these, by its id:
--
--   s:ID  hash    its row: base is what it was created with and its context, head what only commits change, both maps
--                 in MessagePack; version (and after a space since when there is this session, which distinguishes it
--                 from others that had its id), updated, until (of the lease), stop, first (see f:ID), due and serves
--                 (the agent of the tree's root) are fields; a step that renews the lease leaves in until a + and for
--                 how long after updated
--   m:ID  list    messages; one without a time of its own has the microseconds of its commit before its JSON, and one
--                 with the id of its run and a slash before its own id has a slash there instead of the run's id
--   f:ID  list    the chain of states, from the position first on: keyframes, and changes on what is before them
--   c:ID  hash    c<checkpoint> -> record, after the microseconds of its commit; s<step> for each step
--   n:ID  list    checkpoints by number
--   r:ID  hash    o<run> -> where it began, after the microseconds of that, d<run> -> its data, after the microseconds
--                 of its end if it has ended
--   o:ID  list    runs by turn
--   g:ID  hash    what is staged: step and key -> number:data
--   k:ID  hash    pending call -> its step
--   q:ID  hash    queued turn -> number:messages
--   h:ID  hash    tool-result cache
--
--   w:ROOT  hash  pending calls of a tree: id -> record
--   x:NAME        an attempt to commit or import that was successful
--   y:NAME:KEY    a key of a tree that is being imported, until it gets its own name; it expires if that fails
--   to:ID         the bucket of a session that is kept with its root in another one
--   i:NAME  zset  an index: sessions or calls by creation; due:AGENT: sessions by the time they are due, of the trees
--                 whose root has the agent; sweep: roots by the time from which they may have expired; removed:
--                 removals by time; logs: logs by the time from which they are due for a sweep
--   i:due   set   the indexes of sessions that are due or will be
--
-- Records of a namespace, which has a bucket as a root has one:
--
--   v:N:NAMESPACE:KEY hash  a record, which the server removes once it has expired; N is how many bytes the namespace
--                           has
--   vk:NAMESPACE      zset  the keys, in the order of their bytes
--   vi:NAMESPACE      zset  an index, NUL and a key, in that order
--   vx:NAMESPACE      zset  the same by the time of expiry, of those that expire
--   vs                zset  the namespaces of the bucket that have keys
--   vn                      the last version that a record in the bucket got
--
-- What was removed and is not purged yet has other names, where nothing else looks, but for its log:
--
--   z:REMOVAL       hash  id of the root, incarnation, reason, at: the time
--   t:REMOVAL       list  the names of what is left of the tree
--   d:ID                  the removal of a session, whose id is reserved
--   z:REMOVAL:NAME        what was NAME before
--
-- Times are microseconds. A script looks for everything that could make it fail before it writes: Redis rolls nothing
-- back.
local P = KEYS[1]
local call = redis.call

-- clock returns the server's time.
local function clock()
	local t = call('TIME')
	return t[1] * 1000000 + t[2]
end

-- text returns a whole number as it is stored; Lua itself rounds to 14 digits.
local function text(n)
	return string.format('%.0f', n)
end

-- decoded returns the JSON of a record that has a time before it.
local function decoded(record)
	return cjson.decode(string.match(record, '%[.*'))
end

-- kept returns a session's row as it is answered: as it is stored under a name, but for the end of a lease that a step
-- renewed, and the time at last.
local function kept(name)
	local list = call('HMGET', P .. name, 'head', 'base', 'version', 'updated', 'until', 'stop', 'first', 'due')
	if list[5] and string.sub(list[5], 1, 1) == '+' then
		list[5] = text(list[4] + list[5])
	end
	list[9] = text(clock())
	return list
end

-- stored is kept for a session that is there.
local function stored(id)
	return kept('s:' .. id)
end

-- load returns a session's row, and what stored returns; nothing if there is no such session.
local function load(id)
	local list = stored(id)
	if not list[1] then
		return nil
	end
	local row = cmsgpack.unpack(list[2])
	for field, value in pairs(cmsgpack.unpack(list[1])) do
		row[field] = value
	end
	row.updated, row.till, row.stop = tonumber(list[4]), tonumber(list[5]), list[6] or ''
	row.first, row.due = tonumber(list[7]), tonumber(list[8])
	return row, list
end

-- missing is the answer where there is no session.
local function missing(id)
	local key = call('GET', P .. 'd:' .. id)
	local about = key and call('HMGET', P .. 'z:' .. key, 'id', 'reason', 'at', 'incarnation')
	if about and about[1] then
		return { 'removed', key, about[1], about[2], about[3], about[4] or '' }
	end
	local bucket = call('GET', P .. 'to:' .. id)
	if bucket then
		return { 'moved', bucket }
	end
	return { 'none' }
end

-- running says whether a run holds a session and its lease is good.
local function running(row, now)
	return row.status == 'active' and now < row.till
end

-- push appends to a list the values from an index on.
local function push(key, values, from)
	for i = from, #values, 1000 do
		call('RPUSH', key, unpack(values, i, math.min(i + 999, #values)))
	end
end

-- logname returns the name of the log of a root.
local function logname(id, row)
	return row.incarnation and id .. '@' .. row.incarnation or id
end

-- less compares texts by their bytes, as Redis orders members; Lua's own comparison follows the server's locale.
local function less(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then
			return x < y
		end
	end
	return #a < #b
end

-- due_index names the index that a session is in while it is due or will be: that of the agent which its root has.
local function due_index(id)
	return 'i:due:' .. (call('HGET', P .. 's:' .. id, 'serves') or '')
end

-- awaken lists a session as due from a time on.
local function awaken(id, due)
	local name = due_index(id)
	call('ZADD', P .. name, text(due), id)
	call('SADD', P .. 'i:due', name)
end

-- rest takes a session out of those that are due or will be.
local function rest(id)
	local name = due_index(id)
	if call('ZREM', P .. name, id) == 1 and call('EXISTS', P .. name) == 0 then
		call('SREM', P .. 'i:due', name)
	end
end

-- header decodes what stands before the data in the record of a pending call: version, creation, update, session, user,
-- agent, indexes, deadline.
local function header(record)
	return cjson.decode(string.match(record, '^[^\n]*'))
end

-- listed names the indexes that a session is in from its creation on.
local function listed(row)
	local names = { 'all', 'agent:' .. row.agent, 'root:' .. row.root }
	if row.parent then
		table.insert(names, 'parent:' .. row.parent)
	end
	if row.user then
		table.insert(names, 'user:' .. row.user)
	end
	return names
end

-- sweeping lists a root from when on it may have expired: what store.SweepAt says of one that no process holds.
local function sweeping(id, row, updated)
	local at = math.min((row.expires or 0) ~= 0 and row.expires or math.huge, updated + (row.ttl or math.huge))
	if at < math.huge then
		call('ZADD', P .. 'i:sweep', text(at), id)
	else
		call('ZREM', P .. 'i:sweep', id)
	end
end

-- unlist takes a session and its pending calls out of the indexes.
local function unlist(id, row)
	for _, name in ipairs(listed(row)) do
		call('ZREM', P .. 'i:' .. name, id)
	end
	rest(id)
	call('ZREM', P .. 'i:sweep', id)
	for _, pending in ipairs(call('HKEYS', P .. 'k:' .. id)) do
		for _, name in ipairs(header(call('HGET', P .. 'w:' .. row.root, pending))[7]) do
			call('ZREM', P .. 'i:' .. name, row.root .. '\n' .. pending)
		end
	end
end

-- everything names the keys that a session has for itself.
local everything = { 's', 'm', 'f', 'c', 'n', 'r', 'o', 'g', 'k', 'q', 'h' }
