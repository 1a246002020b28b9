-- Returns the commands ARGV[4] and following that the user may not run, keys if the user may not use a key that begins
-- with ARGV[1], and channels if the user may not use the channels that begin with ARGV[2] or are named ARGV[3]. A space
-- separates a command from its subcommand.
local may = redis.acl_check_cmd
local lacks, keys, channels = {}, true, true
for i = 4, #ARGV do
	local name, sub = string.match(ARGV[i], '^(%S+) ?(%S*)$')
	if sub ~= '' then
		if not may(name, sub) then
			lacks[#lacks + 1] = ARGV[i]
		end
	elseif not may(name) then
		lacks[#lacks + 1] = name
	elseif name == 'PUBLISH' or name == 'SUBSCRIBE' then
		channels = channels and may(name, ARGV[2] .. 'log') and may(name, ARGV[3])
	elseif name == 'RENAME' or name == 'HSET' or name == 'HGET' then
		keys = keys and may(name, ARGV[1] .. 'name', ARGV[1] .. 'name', '')
	end
end
if not keys then
	lacks[#lacks + 1] = 'keys'
end
if not channels then
	lacks[#lacks + 1] = 'channels'
end
return lacks
