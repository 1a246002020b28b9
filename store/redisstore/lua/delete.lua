-- Removes the session ARGV[1] and everything it owns, unless it is running.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if running(row, clock()) then
	return { 'running', list }
end
for _, name in ipairs({ 'all', 'due', 'agent:' .. row.agent, 'root:' .. row.root, 'parent:' .. (row.parent or ''),
	'user:' .. (row.user or '') }) do
	call('ZREM', P .. 'i:' .. name, id)
end
local tree = P .. 'w:' .. row.root
for _, pending in ipairs(call('HKEYS', P .. 'k:' .. id)) do
	for _, name in ipairs(header(call('HGET', tree, pending))[7]) do
		call('ZREM', P .. 'i:' .. name, row.root .. '\n' .. pending)
	end
	call('HDEL', tree, pending)
end
for _, letter in ipairs(everything) do
	call('UNLINK', P .. letter .. ':' .. id)
end
return { 'ok', row.root }
