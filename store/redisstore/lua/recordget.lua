-- Returns the time and the record ARGV[2].
local there = record(ARGV[2])
if not there then
	return { 'none' }
end
return { 'ok', text(NOW), there }
