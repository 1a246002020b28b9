-- Returns the record of the call ARGV[2] of the tree ARGV[1].
if call('EXISTS', P .. 's:' .. ARGV[1]) == 0 then
	local none = missing(ARGV[1])
	if none[1] == 'removed' then
		return none
	end
end
return { 'ok', call('HMGET', P .. 'w:' .. ARGV[1], ARGV[2]) }
