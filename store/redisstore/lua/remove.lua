-- Hides the tree of the root ARGV[1], or postpones the time from which it is listed as stale. The client decides
-- whether it may be removed, from the tree as this script returned it together with ARGV[2]. If the tree has changed
-- since, nothing is done; the script returns the time, the next ARGV[2], and the ids and rows of the tree, the root
-- first. ARGV[3] is 'hide', with the removal's key ARGV[4], its reason ARGV[5], and in ARGV[6] the milliseconds for
-- which the removed keys are kept, or 0; or it is 'later', with the time ARGV[4] or nothing.
local id, action, key = ARGV[1], ARGV[3], ARGV[4]
if action == 'hide' then
	local done = call('HGET', P .. 'z:' .. key, 'at')
	if done then
		return { 'ok', done } -- the answer was lost on its way back
	end
end
local root, list = load(id)
if not root then
	return missing(id)
end
if root.root ~= id then
	return { 'child', root.root }
end

local ids, rows, tree, marks = { id }, { root }, { id, list }, { table.concat({ id, list[3], list[4], list[5] }, ' ') }
for _, other in ipairs(call('ZRANGE', P .. 'i:root:' .. id, 0, -1)) do
	if other ~= id then
		local row, list = load(other)
		ids[#ids + 1], rows[#rows + 1] = other, row
		tree[#tree + 1], tree[#tree + 2] = other, list
		marks[#marks + 1] = table.concat({ other, list[3], list[4], list[5] }, ' ')
	end
end
local now, mark = text(clock()), redis.sha1hex(table.concat(marks, '\n'))
if mark ~= ARGV[2] then
	return { 'tree', now, mark, tree }
end

do
	local may, key = redis.acl_check_cmd, KEYS[1]
	local lacks = not may('EXISTS', key) and 'EXISTS' or not may('HGET', key) and 'HGET' or not may('HKEYS', key) and 'HKEYS' or not may('HSET', key) and 'HSET'
		or not may('PEXPIRE', key) and 'PEXPIRE' or not may('RENAME', key) and 'RENAME' or not may('RPUSH', key) and 'RPUSH' or not may('SET', key) and 'SET'
		or not may('SREM', key) and 'SREM' or not may('ZADD', key) and 'ZADD' or not may('ZREM', key) and 'ZREM'
	if lacks then
		return redis.error_reply('NOPERM ' .. lacks)
	end
end
-- Nothing fails from here on.
if action == 'later' then
	if ARGV[4] == '' then
		call('ZREM', P .. 'i:sweep', id)
	else
		call('ZADD', P .. 'i:sweep', ARGV[4], id)
	end
	return { 'ok' }
end

local names, keep = {}, ARGV[6]
local function hide(name)
	if call('EXISTS', P .. name) == 1 then
		local hidden = 'z:' .. key .. ':' .. name
		call('RENAME', P .. name, P .. hidden)
		names[#names + 1] = hidden
	end
end
for i, id in ipairs(ids) do
	unlist(id, rows[i])
	for _, letter in ipairs(everything) do
		hide(letter .. ':' .. id)
	end
end
hide('w:' .. id)
for _, id in ipairs(ids) do
	call('SET', P .. 'd:' .. id, key)
	names[#names + 1] = 'd:' .. id
end
call('HSET', P .. 'z:' .. key, 'id', id, 'reason', ARGV[5], 'at', now, 'incarnation', root.incarnation or '',
	'thread', root.thread or '')
push(P .. 't:' .. key, names, 1)
call('ZADD', P .. 'i:removed', now, key)
if root.thread then
	call('ZADD', P .. 'i:gone:' .. root.thread, now, key)
	if keep ~= '0' then
		call('PEXPIRE', P .. 'i:gone:' .. root.thread, keep) -- with the last of them
	end
end
if keep ~= '0' then
	table.insert(names, 'z:' .. key)
	table.insert(names, 't:' .. key)
	table.insert(names, 'l:' .. logname(id, root))
	table.insert(names, 'e:' .. logname(id, root))
	for _, name in ipairs(names) do
		call('PEXPIRE', P .. name, keep, 'LT') -- events may expire earlier
	end
end
return { 'ok', now }
