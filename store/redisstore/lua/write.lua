-- Writes rows of the session ARGV[1] if it has the version ARGV[2], or if that is empty and there is no such session.
-- ARGV[3] is the next version and ARGV[4] the tree's root. ARGV[5] is the name of the attempt, or empty. ARGV[6] is the
-- only bucket in which a new session may be created, or empty. ARGV[7] is the next head, and ARGV[8] the next base, or
-- empty. Then come the conditions, an empty argument, and the writes. Each is a word with the arguments that are listed
-- below. A key lacks its bucket's prefix. A time is two arguments: microseconds, and empty or a duration. A duration
-- counts from now; the time is the earlier of the two, and microseconds of 0 do not count.
--
-- Returns the time, a space and the end of the lease, and for events the log's last sequence and what announce returns,
-- each after a space. Otherwise it returns a list: no and the stored row; taken if the checkpoint's id exists already;
-- call and its id if a call has changed; dropped if the log was; again and the row if the attempt was written before.
local id, root, attempt, argument = ARGV[1], ARGV[4], ARGV[5], 8
local row_key, states_key, checkpoints_key, numbers_key = P .. 's:' .. id, P .. 'f:' .. id, P .. 'c:' .. id, P .. 'n:' .. id
local row = stored(id)
local stamp, now, first = row[9], tonumber(row[9]), tonumber(row[7]) or 0
local version = ARGV[3]

if row[1] then
	-- A write that nothing else identifies has the name of its attempt, in case it is sent again after its answer was
	-- lost.
	if attempt ~= '' and call('EXISTS', P .. 'x:' .. attempt) == 1 then
		return { 'again', row }
	end
	local expires = call('ZSCORE', P .. 'i:sweep', root)
	if expires and tonumber(expires) <= now and not running(load(id), now) then
		return { 'over', root }
	end
	if row[3] ~= ARGV[2] then
		return { 'no', row }
	end
else
	local none = missing(id)
	local home = ARGV[6]
	if ARGV[2] ~= '' or none[1] == 'removed' or home ~= '' and (home ~= P or call('EXISTS', P .. 'to:' .. id) == 1) then
		return none
	end
	version = version .. ' ' .. stamp
end

local function take()
	argument = argument + 1
	return ARGV[argument]
end

local function time()
	local at, after = tonumber(take()), take()
	if after ~= '' and (at == 0 or now + after < at) then
		return now + after
	end
	return at
end

local cut
local log, place -- the log to which events are appended, and what it has
local earlier = {} -- headers of existing calls
local word = take()
while word ~= '' do
	if word == 'lapsed' then
		local till = tonumber(row[5])
		if now < till and not ahead(till, tonumber(row[10]), now) then
			return { 'no', row }
		end
	elseif word == 'absent' then -- a key and a field
		local key = P .. take()
		if call('HEXISTS', key, take()) == 1 then
			return { 'no', row }
		end
	elseif word == 'cut' then -- the messages and the position of the state that stay, its keyframe, the last checkpoint
		cut = { messages = tonumber(take()), state = tonumber(take()), frame = tonumber(take()), checkpoint = tonumber(take()) }
		if cut.frame < first then
			return { 'no', row }
		end
	elseif word == 'checkpoint' then -- its id
		local there = call('HGET', checkpoints_key, 'c' .. take())
		if there and not (cut and decoded(there)[1] > cut.checkpoint) then
			return { 'taken', row }
		end
	elseif word == 'log' then -- its name
		log = take()
		place = call('HMGET', P .. 'l:' .. log, 'last', 'dropped', 'f' .. id)
		if place[2] then
			return { 'dropped', row }
		end
	else -- a call: its id and version
		local name, seen = take(), tonumber(take())
		local there = call('HGET', P .. 'w:' .. root, name)
		there = there and header(there)
		if (there and there[1] or 0) ~= seen or there and there[4] ~= id then
			return { 'call', row, name }
		end
		earlier[name] = there
	end
	word = take()
end

do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('DEL', key) and 'DEL' or not may('EXISTS', key) and 'EXISTS' or not may('HDEL', key) and 'HDEL' or not may('HGET', key) and 'HGET'
		or not may('HMGET', key) and 'HMGET' or not may('HSET', key) and 'HSET' or not may('LINDEX', key) and 'LINDEX' or not may('LTRIM', key) and 'LTRIM'
		or not may('PEXPIRE', key) and 'PEXPIRE' or not may('RPOP', key) and 'RPOP' or not may('RPUSH', key) and 'RPUSH' or not may('SADD', key) and 'SADD'
		or not may('SET', key) and 'SET' or not may('SREM', key) and 'SREM' or not may('TIME', key) and 'TIME' or not may('XADD', key) and 'XADD'
		or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.

if cut then
	if cut.messages == 0 then
		call('DEL', P .. 'm:' .. id)
	else
		call('LTRIM', P .. 'm:' .. id, 0, cut.messages - 1)
	end
	call('LTRIM', states_key, 0, cut.state - first)
	local last = call('LINDEX', numbers_key, -1)
	while last do
		local record = decoded(call('HGET', checkpoints_key, 'c' .. last))
		if record[1] <= cut.checkpoint then
			break
		end
		call('HDEL', checkpoints_key, 'c' .. last, 's' .. record[10])
		call('RPOP', numbers_key)
		last = call('LINDEX', numbers_key, -1)
	end
end
local head, base = ARGV[7], ARGV[8]
local till, stop, due, ttl = row[5] or '0', row[6] or '', row[8] or '0', row[10]
local before, last, channel, origin
word = take()
while word do
	if word == 'append' or word == 'dated' then -- a list, how many and the elements; dated ones get the time
		local key, list = P .. take(), {}
		for i = 1, tonumber(take()) do
			list[i] = word == 'dated' and stamp .. take() or take()
		end
		push(key, list, 1)
	elseif word == 'events' or word == 'events beside' then
		-- how many, their batch, whether some get the time, how long they are kept, the channel, as from whom; beside leaves
		-- the head's place as it is
		local count, batch, dated, keep = take(), take(), take() ~= '', take()
		local stream = P .. 'e:' .. log
		before = text(tonumber(place[1]) or 0)
		last, channel, origin = text(before + count), take(), take()
		call('XADD', stream, last .. '-' .. count, 'e', batch, unpack(dated and { 't', stamp } or {}))
		call('HSET', P .. 'l:' .. log, 'last', last)
		if keep ~= '0' then
			call('PEXPIRE', stream, keep)
		end
		call('ZADD', P .. 'i:logs', 'LT', stamp, log)
		if word == 'events' then
			head = head .. cmsgpack.pack('log', tonumber(last))
		end
	elseif word == 'fence' then -- the token, as a time; lower ones are refused from now on
		local token = time()
		if token > (tonumber(place[3]) or 0) then
			call('HSET', P .. 'l:' .. log, 'f' .. id, text(token))
			call('HDEL', P .. 'l:' .. log, 'b' .. id)
		end
	elseif word == 'set' then -- a hash, a field, whether the value gets the time, the value
		local key, field, dated = P .. take(), take(), take() ~= ''
		call('HSET', key, field, dated and stamp .. take() or take())
	elseif word == 'set before' or word == 'set last' then -- a hash, a field, the value after the time, up to a sequence, and the rest
		local key, field, value = P .. take(), take(), stamp .. take()
		call('HSET', key, field, value .. (word == 'set last' and last or before) .. take())
	elseif word == 'unset' then -- a hash and a field
		local key = P .. take()
		call('HDEL', key, take())
	elseif word == 'score' then -- a sorted set, a score or nothing for now, a member
		local key, score = P .. take(), take()
		call('ZADD', key, score ~= '' and score or stamp, take())
	elseif word == 'unscore' then -- a sorted set and a member
		local key = P .. take()
		call('ZREM', key, take())
	elseif word == 'remove' then
		call('DEL', P .. take())
	elseif word == 'head' or word == 'base' then -- a name and a time, which the map counts already
		local name = take()
		local packed = cmsgpack.pack(name, time())
		if word == 'head' then
			head = head .. packed
		else
			base = base .. packed
		end
	elseif word == 'serves' then -- the agent of a new session, unless its root has another one
		local agent, above = take(), root ~= id and call('HGET', P .. 's:' .. root, 'base')
		call('HSET', row_key, 'serves', above and cmsgpack.unpack(above).agent or agent)
	elseif word == 'till' then -- the end of the lease, and its duration
		till = text(time())
		ttl = take()
	elseif word == 'stop' then -- the run whose stop request is dropped
		local run = take()
		if stop ~= '' and cjson.decode(string.match(stop, '{.*')).run_id == run then
			stop = ''
		end
	elseif word == 'due' then -- the time from which the session is due, and why
		due = text(time())
		awaken(id, due, take())
	elseif word == 'due at the end of the lease' then
		due = till
		awaken(id, due, 'crashed')
	elseif word == 'never due' then
		due = '0'
		rest(id)
	elseif word == 'sweep' then -- when it may have expired, or 0
		local at = time()
		if at > 0 then
			call('ZADD', P .. 'i:sweep', text(at), id)
		else
			call('ZREM', P .. 'i:sweep', id)
		end
	else -- a call: its id and version, step, session, user and agent as JSON, indexes as JSON, deadline, data
		local name, seen, step, about, indexes = take(), tonumber(take()), take(), take(), take()
		local old, member = earlier[name], root .. '\n' .. name
		local since = old and text(old[2]) or stamp
		for _, index in ipairs(old and old[7] or {}) do
			call('ZREM', P .. 'i:' .. index, member)
		end
		for _, index in ipairs(cjson.decode(indexes)) do
			call('ZADD', P .. 'i:' .. index, since, member)
		end
		call('HSET', P .. 'w:' .. root, name, '[' .. table.concat({ seen + 1, since, stamp, about, indexes, take() }, ',') ..
			']\n' .. take())
		call('HSET', P .. 'k:' .. id, name, step)
	end
	word = take()
end
if base ~= '' then
	call('HSET', row_key, 'base', base)
end
if attempt ~= '' then
	call('SET', P .. 'x:' .. attempt, '', 'PX', 120000)
end
call('HSET', row_key, 'head', head, 'version', version, 'updated', stamp, 'until', till, 'ttl', ttl, 'stop', stop, 'first', text(first), 'due', due)
if not last then
	return stamp .. ' ' .. till
end
return stamp .. ' ' .. till .. ' ' .. last .. ' ' .. announce(channel, last .. ' ' .. origin)
