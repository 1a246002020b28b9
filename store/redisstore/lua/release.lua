-- Deletes the note that the session ARGV[1] is kept in bucket ARGV[2].
local key = P .. 'to:' .. ARGV[1]
-- Nothing fails from here on.
if call('GET', key) == ARGV[2] then
	call('DEL', key)
end
return { 'ok' }
