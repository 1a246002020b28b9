-- Returns the row of the session ARGV[1], and the values that the rest asks for, three texts each: HGET, a key and a
-- field; HKEYS, a key and an empty text; or PLACE, the key of a chain of states and a position.
local row = stored(ARGV[1])
if not row[1] then
	return missing(ARGV[1])
end
local first = tonumber(row[7])

-- place returns the position of the keyframe that a state builds on, and the bytes of the keyframe and of the changes
-- since. It returns false for a state that is not kept.
local function place(key, position)
	local changes = 0
	for last = position - first, 0, -100 do
		local from = math.max(last - 99, 0)
		local states = call('LRANGE', key, from, last)
		for i = #states, 1, -1 do
			if string.sub(states[i], 1, 1) ~= '[' then
				return { first + from + i - 1, #states[i], changes }
			end
			changes = changes + #states[i]
		end
	end
	return false
end

local found = {}
for i = 2, #ARGV, 3 do
	if ARGV[i] == 'HKEYS' then
		found[#found + 1] = call('HKEYS', P .. ARGV[i + 1])
	elseif ARGV[i] == 'PLACE' then
		found[#found + 1] = place(P .. ARGV[i + 1], tonumber(ARGV[i + 2]))
	else
		found[#found + 1] = call('HGET', P .. ARGV[i + 1], ARGV[i + 2])
	end
end
return { 'ok', row, found }
