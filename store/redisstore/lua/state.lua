-- Answers the chain of the state of the session ARGV[1], as of the checkpoint ARGV[2] if that is not empty.
local id = ARGV[1]
local row = load(id)
if not row then
	return missing(id)
end
local frame, position, first = row.frame, row.position, row.first
if ARGV[2] ~= '' then
	local record = call('HGET', P .. 'c:' .. id, 'c' .. ARGV[2])
	if not record then
		return { 'checkpoint', {}, ARGV[2] }
	end
	record = cjson.decode(record)
	position, frame = record[4], record[5]
end
return { 'ok', call('LRANGE', P .. 'f:' .. id, frame - first, position - first) }
