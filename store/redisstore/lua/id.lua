-- Every script whose first argument is the id of a session begins with this file. If that session may have expired, the
-- client must decide that first.
do
	local base = call('HGET', P .. 's:' .. ARGV[1], 'base')
	local root = base and cmsgpack.unpack(base).root
	local at = root and tonumber(call('ZSCORE', P .. 'i:sweep', root) or 'inf')
	if at and at <= clock() and not running(load(ARGV[1]), clock()) then
		return { 'over', root }
	end
end
