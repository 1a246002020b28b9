-- Answers the row of the session ARGV[1].
local row, list = load(ARGV[1])
if not row then
	return missing(ARGV[1])
end
return { 'ok', list }
