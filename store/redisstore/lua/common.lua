-- Every script except step.lua and schema.lua begins with this file. KEYS[1] is the prefix of the names of a bucket's
-- keys; no key has that name itself. A session has these keys, by its id:
--
--   s:ID  hash    its row, in these fields. base: its context and what it was created with; head: what only commits
--                 change; both are maps in MessagePack. version: its version, a space and the time when the store
--                 got it, which distinguishes it from earlier sessions with its id. updated, stop, first (see f:ID),
--                 due. until: the end of the lease; a step that renews the lease writes a + and the microseconds
--                 after updated instead. ttl: the microseconds for which the lease was last taken or renewed, unless
--                 until has them. serves: the agent of the tree's root
--   m:ID  list    messages; one without a time of its own has the microseconds of its commit before its JSON, and one
--                 whose id begins with the id of its run and a slash has a slash there, and no run id
--   f:ID  list    the chain of states, from the position first on: keyframes, and changes to the states before them
--   c:ID  hash    c<checkpoint> -> the microseconds of its commit and its record; s<step> for each step
--   n:ID  list    checkpoints by number
--   r:ID  hash    o<run> -> the microseconds of its begin and its origin; d<run> -> the microseconds of its end, if it
--                 has ended, and its data; before the data of a run whose text is that of a message, @ and the number
--                 of that message, from 1
--   o:ID  list    runs by turn
--   g:ID  hash    staged pieces: step and key -> number:data
--   k:ID  hash    pending call -> its step
--   q:ID  hash    queued turn -> number:messages
--   h:ID  hash    tool-result cache
--
--   w:ROOT  hash  pending calls of a tree: id -> record
--   x:NAME        a successful attempt to write
--   y:NAME:KEY    a key of a tree that is being imported, until it gets its own name; it expires if the import fails
--   to:ID         the bucket of a session that is kept with its root in another one
--   i:NAME  zset  an index: sessions or calls by creation, of which user:USER has all sessions of a user,
--                 current:USER and archived:USER the roots that are not archived and those that are, tenant:TENANT
--                 the sessions of a tenant, and open:TENANT its open calls; unsettled: effects that are not; due:AGENT:
--                 sessions by the time they are due, of the trees whose root has the agent; wait:AGENT: those of them
--                 that wait with a deadline, by that; sweep: roots by the time from which they may have expired;
--                 removed: removals by time; logs: logs by the time from which they are due for a sweep
--   i:due   set   the indexes of sessions that are due or will be
--
-- Records of a namespace, which has a bucket as a root does:
--
--   v:N:NAMESPACE:KEY hash  a record, which the server removes once it has expired; N is how many bytes the namespace
--                           has
--   vk:NAMESPACE      zset  the keys, in the order of their bytes
--   vi:NAMESPACE      zset  an index, NUL and a key, in that order
--   vx:NAMESPACE      zset  the same by time of expiry, for records that expire
--   vs                zset  the namespaces of the bucket that have keys
--   vn                      the last version that a record in the bucket got
--
-- A scope of memories, which has a bucket as a root does; SCOPE is its kind, a colon and its name:
--
--   memh:SCOPE  hash  version, updated, due: when it is worth a sweep, or nothing
--   meme:SCOPE  hash  key -> value
--   memk:SCOPE  zset  the keys, in the order of their bytes
--   mems        zset  the scopes of the bucket
--   memd        zset  those of them that are or will be due, by that time
--
-- The usage of a bucket's sessions:
--
--   ul  list  the rows of usage that are not folded: the microseconds of the commit and JSON
--   uk  list  the rows that are folded and not trimmed, in the order of folding
--   us  hash  the sums of folded rows by their keys
--   uz  zset  those keys, in the order of their bytes
--   uh  hash  version, which each write to these keys changes except an append to ul; trimmed: how many rows were
--     trimmed from uk
--
-- Blobs are in the bucket of the tree that names them. A blob that trees of several buckets name is in each:
--
--   blob:TENANT:HASH         hash  data, and names: how many owners in the bucket name it
--   blobn:ROOT^AINCARNATION  zset  the hashes of the blobs that an owner names
--   blobs                    zset  the owners in the bucket that name some
--   blobu                    zset  TENANT:HASH of the blobs without a name, by the time since which they have none
--
-- The keys of a removed tree that is not yet purged have other names, so that its sessions are not found. Only the log
-- keeps its names:
--
--   z:REMOVAL       hash  id of the root, incarnation, reason, at: the time
--   t:REMOVAL       list  the names of the tree's remaining keys
--   d:ID                  the removal of a session, whose id is reserved
--   z:REMOVAL:NAME        what was NAME before
--
-- Times are microseconds. A script checks everything that could make it fail before it writes: Redis rolls nothing
-- back. The rights to the commands that follow the line "Nothing fails from here on." are checked there: the client
-- replaces the line, see script.go. The flags in a script's first line have the server refuse it as a whole, before it
-- begins, if it is full or does not accept writes.
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

-- decoded returns the JSON of a record that begins with a time.
local function decoded(record)
	return cjson.decode(string.match(record, '%[.*'))
end

-- kept returns the session's row that is stored under a name, with the end and the duration of the lease if a step
-- renewed it, and with the time and that duration as the last elements.
local function kept(name)
	local list = call('HMGET', P .. name, 'head', 'base', 'version', 'updated', 'until', 'stop', 'first', 'due', 'ttl')
	list[10] = list[9] or '0'
	if list[5] and string.sub(list[5], 1, 1) == '+' then
		list[10] = string.sub(list[5], 2)
		list[5] = text(list[4] + list[5])
	end
	list[9] = text(clock())
	return list
end

-- stored is kept for a session that is not removed.
local function stored(id)
	return kept('s:' .. id)
end

-- load returns a session's row and the result of stored; nil if there is no such session.
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
	row.first, row.due, row.lease = tonumber(list[7]), tonumber(list[8]), tonumber(list[10])
	return row, list
end

-- text_at returns the number of the message that a run has its text from; 0 for a run whose data has its text.
local function text_at(data)
	return tonumber(string.match(data, '^%d*@(%d+)') or 0)
end

-- run returns a run's origin, its data and the message that it has its text from, or an empty text.
local function run(id, name)
	local fields = call('HMGET', P .. 'r:' .. id, 'o' .. name, 'd' .. name)
	local at = fields[2] and text_at(fields[2]) or 0
	fields[3] = at > 0 and call('LINDEX', P .. 'm:' .. id, at - 1) or ''
	return fields
end

-- missing returns the answer for a session that does not exist.
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

-- ahead is cairn.Lease.Ahead: the clock was set back since the lease was taken or renewed.
local function ahead(till, ttl, now)
	return ttl > 0 and till > now + 2 * ttl
end

-- announce publishes a message. What the script has written stands even if the user may not publish: announce then
-- returns the error, else an empty text.
local function announce(channel, message)
	local answer = redis.pcall('PUBLISH', channel, message)
	return type(answer) == 'table' and answer.err or ''
end

-- running reports whether a run holds a session under a valid lease.
local function running(row, now)
	return row.status == 'active' and now < row.till and not ahead(row.till, row.lease, now)
end

-- push appends the values from an index on to a list.
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

-- leave removes a session from an index of sessions that are due or will be.
local function leave(name, id)
	if call('ZREM', P .. name, id) == 1 and call('EXISTS', P .. name) == 0 then
		call('SREM', P .. 'i:due', name)
	end
end

-- awaken adds a session to the index of due sessions of its root's agent, from a time on. kind is why it is due then:
-- the sessions with a deadline, which may be far away, have an index of their own.
local function awaken(id, due, kind)
	local agent = call('HGET', P .. 's:' .. id, 'serves') or ''
	local name, other = 'i:due:' .. agent, 'i:wait:' .. agent
	if kind == 'deadline' then
		name, other = other, name
	end
	leave(other, id)
	call('ZADD', P .. name, text(due), id)
	call('SADD', P .. 'i:due', name)
end

-- rest removes a session from the indexes of sessions that are due or will be.
local function rest(id)
	local agent = call('HGET', P .. 's:' .. id, 'serves') or ''
	leave('i:due:' .. agent, id)
	leave('i:wait:' .. agent, id)
end

-- header decodes what precedes the data in a pending call's record: version, creation, update, session, user, agent,
-- indexes, deadline.
local function header(record)
	return cjson.decode(string.match(record, '^[^\n]*'))
end

-- listed names the indexes that have a session, except those of due and of expiring sessions.
local function listed(row)
	local names = { 'all', 'agent:' .. row.agent, 'root:' .. row.root }
	if row.thread then
		table.insert(names, 'thread:' .. row.thread)
	end
	if row.parent then
		table.insert(names, 'parent:' .. row.parent)
	end
	local tenant = string.match(row.root, '^(.-)::') -- a tree has one
	if tenant then
		table.insert(names, 'tenant:' .. tenant)
	end
	if row.user then
		table.insert(names, 'user:' .. row.user)
		if not row.parent then
			table.insert(names, (row.archived and 'archived:' or 'current:') .. row.user)
		end
	end
	return names
end

-- sweeping lists a root from the time when it may have expired: the result of store.SweepAt for a tree that no process
-- holds.
local function sweeping(id, row, updated)
	local at = math.min((row.expires or 0) ~= 0 and row.expires or math.huge, updated + (row.ttl or math.huge))
	if at < math.huge then
		call('ZADD', P .. 'i:sweep', text(at), id)
	else
		call('ZREM', P .. 'i:sweep', id)
	end
end

-- unlist removes a session and its pending calls from the indexes.
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

-- everything names the keys of a single session.
local everything = { 's', 'm', 'f', 'c', 'n', 'r', 'o', 'g', 'k', 'q', 'h' }
