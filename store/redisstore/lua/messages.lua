-- Answers the messages of the session ARGV[1] from index ARGV[2] to ARGV[3].
if call('EXISTS', P .. 's:' .. ARGV[1]) == 0 then
	return missing(ARGV[1])
end
return { 'ok', call('LRANGE', P .. 'm:' .. ARGV[1], ARGV[2], ARGV[3]) }
