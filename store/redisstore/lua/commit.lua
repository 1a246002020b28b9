-- Commits to the session ARGV[1]. What nearly every commit has stands in the arguments up to ARGV[14], which are named
-- right below; everything else is in the JSON of ARGV[15], and the texts that go with all of it follow in the order in
-- which they are taken here. Answers what it came to and the row as it is stored then. See step.lua for what most commits
-- take instead.
local id, token, version, messages, step, log = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lease, ttl, state, status, usage = ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]
local checkpoint_field, step_field = ARGV[12], ARGV[13] -- c<id> and s<step>, or both empty
local drop_staged = ARGV[14] ~= ''
local c = ARGV[15] == '' and {} or cjson.decode(ARGV[15])
local t = call('TIME')
local now, stamp = t[1] * 1000000 + t[2], t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
local row_key, states_key, checkpoints_key, runs_key = P .. 's:' .. id, P .. 'f:' .. id, P .. 'c:' .. id, P .. 'r:' .. id

local argument = 15
local function take()
	argument = argument + 1
	return ARGV[argument]
end

local row = stored(id)
local created = not row[1]
local number, born = string.match(row[3] or '', '^(%d+) (%d+)$')
local till, first, due_before = tonumber(row[5]) or 0, tonumber(row[7]) or 0, tonumber(row[8]) or 0
-- refused says whether the guard does not hold.
local function refused(head, base, till)
	return c.new
		or c.agent and c.agent ~= base().agent
		or c.idle and head.status == 'active'
		or c.lapsed and (head.status ~= 'active' or now < till)
		or version ~= 0 and version ~= tonumber(number)
end

local head, unpacked
local base_changed = false
-- base returns what is not in the head. Few commits need it.
local function base()
	unpacked = unpacked or cmsgpack.unpack(row[2])
	return unpacked
end
if created then
	local none = missing(id)
	if none[1] == 'removed' or not c.create or c.home and (c.home ~= P or call('EXISTS', P .. 'to:' .. id) == 1) then
		return none
	end
	head = { status = 'idle', messages = 0, position = 0, frame = 0, keyframe = 0, changes = 0, checkpoints = 0,
		turn = 0, step = 0, log = 0, token = now }
	unpacked, base_changed = c.create, true
	unpacked.created = now
else
	-- A commit that has neither a step nor a run to be known by has the name of its attempt, in case it is sent again
	-- because its answer was lost.
	if c.attempt and call('EXISTS', P .. 'x:' .. c.attempt) == 1 then
		return { 'ok', row }
	end
	head = cmsgpack.unpack(row[1])
	local fenced = token ~= 0 and not c.new and token ~= head.token
	if fenced and not (lease == 'take' and c.owner == head.owner and token + 1 == head.token) then
		return { 'guard', row, stamp }
	end
	if c.start and call('HEXISTS', runs_key, 'o' .. c.start.id) == 1 then
		return { 'ok', row }
	end
	local taken
	if checkpoint_field ~= '' then
		local there = call('HMGET', checkpoints_key, step_field, checkpoint_field)
		if there[1] and step_field ~= 's' then
			return { 'ok', row }
		end
		taken = there[2] and not c.rewind and not c.rewind_run
	end
	if fenced or refused(head, base, till) then
		return { 'guard', row, stamp }
	end
	if taken then
		return { 'taken', row, string.sub(checkpoint_field, 2) }
	end
end
local initial = c.create and take()

-- Where the session goes back to first, if it does.
local origin
if c.rewind then
	local record = call('HGET', checkpoints_key, 'c' .. c.rewind)
	if not record then
		return { 'checkpoint', row, c.rewind }
	end
	record = cjson.decode(record)
	origin = { checkpoint = c.rewind, number = record[1], messages = record[3], position = record[4], frame = record[5],
		keyframe = record[6], changes = record[7] }
elseif c.rewind_run then
	local record = call('HGET', runs_key, 'o' .. c.rewind_run)
	if not record then
		return { 'run', row, c.rewind_run }
	end
	record = cjson.decode(record)
	origin = { messages = record[4], position = record[5], frame = record[6].frame, keyframe = record[6].keyframe,
		changes = record[6].changes, checkpoint = record[7], number = 0 }
	local at = origin.checkpoint ~= '' and call('HGET', checkpoints_key, 'c' .. origin.checkpoint)
	if at then
		origin.number = cjson.decode(at)[1]
	end
	if c.rewind_run ~= head.run or origin.messages > head.messages or origin.position > head.position
		or origin.frame < first or origin.checkpoint ~= '' and not at then
		return { 'gone', row, c.rewind_run }
	end
end

if c.finish and call('HEXISTS', runs_key, 'o' .. c.finish.id) == 0 then
	return { 'run', row, c.finish.id }
end

-- The records of pending calls that are there, by the order of the writes.
local earlier = {}
if c.calls then
	local twice = {}
	for i, write in ipairs(c.calls) do
		local record = call('HGET', P .. 'w:' .. base().root, write.id)
		record = record and header(record)
		if twice[write.id] or (record and record[1] or 0) ~= write.seen or record and record[4] ~= id then
			return { 'call', row, write.id }
		end
		earlier[i], twice[write.id] = record, true
	end
end

local queue_key = P .. 'q:' .. id
local enqueue = c.enqueue and call('HEXISTS', queue_key, c.enqueue) == 0
if c.dequeue and not (enqueue and c.enqueue == c.dequeue) and call('HEXISTS', queue_key, c.dequeue) == 0 then
	return { 'turn', row, c.dequeue }
end

-- Nothing fails from here on.

if created then
	push(states_key, { initial }, 1)
	head.keyframe = #initial
	for _, name in ipairs(listed(unpacked)) do
		call('ZADD', P .. 'i:' .. name, stamp, id)
	end
	local root = unpacked.root ~= id and call('HGET', P .. 's:' .. unpacked.root, 'base')
	call('HSET', row_key, 'serves', root and cmsgpack.unpack(root).agent or unpacked.agent)
end
row[3], row[4] = text((tonumber(number) or 0) + 1) .. ' ' .. (born or stamp), stamp

if origin then
	if origin.messages == 0 then
		call('DEL', P .. 'm:' .. id)
	else
		call('LTRIM', P .. 'm:' .. id, 0, origin.messages - 1)
	end
	call('LTRIM', states_key, 0, origin.position - first)
	for _, checkpoint in ipairs(call('ZRANGEBYSCORE', P .. 'n:' .. id, '(' .. origin.number, '+inf')) do
		local record = cjson.decode(call('HGET', checkpoints_key, 'c' .. checkpoint))
		call('HDEL', checkpoints_key, 'c' .. checkpoint, 's' .. record[9].step_id)
	end
	call('ZREMRANGEBYSCORE', P .. 'n:' .. id, '(' .. origin.number, '+inf')
	head.epoch = (head.epoch or 0) + 1
	for _, field in ipairs({ 'messages', 'checkpoint', 'position', 'frame', 'keyframe', 'changes' }) do
		head[field] = origin[field]
	end
end

if c.finish then
	call('HSET', runs_key, 'd' .. c.finish.id, (c.finish.over and stamp or '') .. take())
	if (row[6] or '') ~= '' and cjson.decode(string.match(row[6], '{.*')).run_id == c.finish.id then
		row[6] = ''
	end
end
if c.start then
	for field in pairs(head) do
		if string.sub(field, 1, 2) == 'r:' then
			head[field] = nil
		end
	end
	head.turn, head.run, head.step, head.recoveries = head.turn + 1, c.start.id, 0, nil
	local place = string.format('{"frame":%d,"keyframe":%d,"changes":%d}', head.frame, head.keyframe, head.changes)
	call('HSET', runs_key, 'd' .. c.start.id, take(), 'o' .. c.start.id, '[' .. table.concat({ head.turn, stamp, c.start.sequence,
		head.messages, head.position, place, cjson.encode(head.checkpoint or '') }, ',') .. ']')
	call('RPUSH', P .. 'o:' .. id, c.start.id)
end

if messages > 0 then
	local list = {}
	for i = 1, messages do
		local message = take()
		list[i] = c.dated and c.dated[i] and message or stamp .. message
	end
	push(P .. 'm:' .. id, list, 1)
	head.messages = head.messages + messages
end
if state ~= '' then
	local data = take()
	call('RPUSH', states_key, data)
	head.position = head.position + 1
	if state == 'keyframe' then
		head.frame, head.keyframe, head.changes = head.position, #data, 0
	else
		head.changes = head.changes + #data
	end
end

if step > 0 then
	head.step, head.recoveries = step, nil
end
if c.recovered then
	head.recoveries = (head.recoveries or 0) + 1
end
if status ~= '' then
	head.status = status
end
if log > head.log then
	head.log = log
end
if usage ~= '' then
	for name, n in string.gmatch(usage, '(%S+) (%S+)') do
		head['u:' .. name] = (head['u:' .. name] or 0) + n
		head['r:' .. name] = (head['r:' .. name] or 0) + n
	end
end
for name, n in pairs(c.custom or {}) do
	head['u:custom:' .. name] = (head['u:custom:' .. name] or 0) + n
	head['r:custom:' .. name] = (head['r:custom:' .. name] or 0) + n
end
if lease == 'renew' then
	till = now + ttl
elseif lease == 'take' then
	head.owner, head.token, till = c.owner, head.token + 1, now + ttl
elseif lease == 'release' then
	head.owner, till = nil, now
end

if c.context then
	local context, base = c.context, base()
	base_changed = true
	if context.user and context.user ~= (base.user or '') then
		if base.user then
			call('ZREM', P .. 'i:user:' .. base.user, id)
		end
		base.user = context.user ~= '' and context.user or nil
		if base.user then
			call('ZADD', P .. 'i:user:' .. base.user, text(base.created), id)
		end
	end
	base.tags = context.tags or base.tags
	base.expires = context.expires or base.expires
	if context.metadata then
		local merged = cjson.decode(base.metadata or '{}')
		for name, value in pairs(context.metadata) do
			merged[name] = value ~= '' and value or nil
		end
		base.metadata = next(merged) and cjson.encode(merged) or nil
	end
end
if c.suspend then
	head.suspended, head.open, head.deadline = c.suspend.step, c.suspend.open, c.suspend.deadline
	if c.suspend['in'] and (head.deadline == 0 or now + c.suspend['in'] < head.deadline) then
		head.deadline = now + c.suspend['in']
	end
end

for i, write in ipairs(c.calls or {}) do
	local root = base().root
	local member, old = root .. '\n' .. write.id, earlier[i]
	local since = old and text(old[2]) or stamp
	table.insert(write.indexes, 'tree:' .. root)
	table.insert(write.indexes, 'session:' .. id)
	for _, name in ipairs(old and old[7] or {}) do
		call('ZREM', P .. 'i:' .. name, member)
	end
	for _, name in ipairs(write.indexes) do
		call('ZADD', P .. 'i:' .. name, since, member)
	end
	call('HSET', P .. 'w:' .. root, write.id, '[' .. table.concat({ write.seen + 1, since, stamp, cjson.encode(id),
		cjson.encode(base().user or ''), cjson.encode(base().agent), cjson.encode(write.indexes),
		text(write['in'] and now + write['in'] or write.deadline) }, ',') .. ']\n' .. take())
	call('HSET', P .. 'k:' .. id, write.id, write.step)
end

if checkpoint_field ~= '' then
	local checkpoint = string.sub(checkpoint_field, 2)
	head.checkpoints = head.checkpoints + 1
	call('HSET', checkpoints_key, step_field, '', checkpoint_field, '[' .. table.concat({ head.checkpoints, head.turn,
		head.messages, head.position, head.frame, head.keyframe, head.changes, cjson.encode(head.checkpoint or ''), take(), stamp },
		',') .. ']')
	call('ZADD', P .. 'n:' .. id, head.checkpoints, checkpoint)
	head.checkpoint = checkpoint
end
if drop_staged then
	call('DEL', P .. 'g:' .. id)
end

if enqueue then
	head.turns, head.queued = (head.turns or 0) + 1, (head.queued or 0) + 1
	call('HSET', queue_key, c.enqueue, head.turns .. ':' .. take())
elseif c.enqueue then
	take()
end
if c.dequeue then
	call('HDEL', queue_key, c.dequeue)
	head.queued = head.queued - 1
end
for _, name in ipairs(c.cache or {}) do
	call('HSET', P .. 'h:' .. id, name, take())
end
for _, name in ipairs(c.cache_drop or {}) do
	call('HDEL', P .. 'h:' .. id, name)
end

-- Why and from when on the session needs a worker. The index may be early for a lease: due.lua looks at the row.
local kind, due
if head.status == 'active' then
	kind, due = 'crashed', till
elseif head.status == 'paused' then
	if (head.suspended or '') ~= '' and head.open == 0 then
		kind, due = 'ready', now
	elseif (head.deadline or 0) ~= 0 then
		kind, due = 'deadline', head.deadline
	end
elseif (head.queued or 0) > 0 then
	kind, due = 'queued', now
end
if kind and kind == head.kind and kind ~= 'deadline' then
	due = math.min(due, due_before)
end
if kind ~= head.kind or kind and due ~= due_before then
	head.kind, row[8] = kind, text(due or 0)
	if kind then
		awaken(id, due)
	else
		rest(id)
	end
end

if c.attempt then
	call('SET', P .. 'x:' .. c.attempt, '', 'PX', 120000)
end
row[1], row[5] = cmsgpack.pack(head), text(till)
if base_changed then
	row[2] = cmsgpack.pack(unpacked)
	call('HSET', row_key, 'base', row[2])
	if unpacked.root == id then
		sweeping(id, unpacked, now)
	end
end
call('HSET', row_key, 'head', row[1], 'version', row[3], 'updated', row[4], 'until', row[5], 'stop', row[6] or '', 'first', text(first),
	'due', row[8] or '0')
row[9] = stamp
return { 'ok', row }
