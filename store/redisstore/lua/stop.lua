-- Records the stop request ARGV[3] for the run ARGV[2] of the session ARGV[1], and publishes it on the channel ARGV[4].
local id = ARGV[1]
local row, list = load(id)
if not row then
	return missing(id)
end
if row.status ~= 'active' or row.run ~= ARGV[2] then
	return { 'not running', list }
end
local stop = text(clock()) .. ARGV[3]
if row.stop ~= '' then
	local earlier = cjson.decode(string.match(row.stop, '{.*'))
	if earlier.run_id == ARGV[2] and (earlier.kind == 'abort' or cjson.decode(ARGV[3]).kind ~= 'abort') then
		stop = row.stop
	end
end
-- Nothing fails from here on.
call('HSET', P .. 's:' .. id, 'stop', stop)
return { 'ok', announce(ARGV[4], id .. '\n' .. stop) }
