-- Removes the session ARGV[1] and everything it owns, unless it is running.
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if running(row, clock()) then
	return { 'running', list }
end
-- Nothing fails from here on.
unlist(id, row)
for _, pending in ipairs(call('HKEYS', P .. 'k:' .. id)) do
	call('HDEL', P .. 'w:' .. row.root, pending)
end
for _, letter in ipairs(everything) do
	call('UNLINK', P .. letter .. ':' .. id)
end
return { 'ok', row.root }
