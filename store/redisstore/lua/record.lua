-- The scripts for records begin with this file, after common.lua. ARGV[1] is the namespace; all of it is in one bucket.
local SPACE, NOW = ARGV[1], clock()
local KEYS_OF, PLACES, EXPIRY = P .. 'vk:' .. SPACE, P .. 'vi:' .. SPACE, P .. 'vx:' .. SPACE
local NAMESPACES = P .. 'vs'

-- named returns the name of a record's key.
local function named(key)
	return P .. 'v:' .. #SPACE .. ':' .. SPACE .. ':' .. key
end

-- place returns a record's entry in vi and vx.
local function place(index, key)
	return index .. '\0' .. key
end

-- record returns the index, version, creation, update, expiry and value of a record; nothing if there is none, or if it
-- has expired and the server has not yet removed it.
local function record(key)
	local r = call('HMGET', named(key), 'index', 'version', 'created', 'updated', 'expires', 'value')
	if r[1] and (r[5] == '0' or tonumber(r[5]) > NOW) then
		return r
	end
end

-- remove removes a record with its index entries.
local function remove(index, key)
	call('UNLINK', named(key))
	call('ZREM', KEYS_OF, key)
	call('ZREM', PLACES, place(index, key))
	call('ZREM', EXPIRY, place(index, key))
	if call('EXISTS', KEYS_OF) == 0 then
		call('ZREM', NAMESPACES, SPACE)
	end
end

-- sweep removes the index entries of up to n expired records. The server may have removed their values already, and a
-- new record of the same key may exist under another index.
local function sweep(n)
	for _, at in ipairs(call('ZRANGEBYSCORE', EXPIRY, '-inf', text(NOW), 'LIMIT', 0, n)) do
		local cut = string.find(at, '\0', 1, true)
		local index, key = string.sub(at, 1, cut - 1), string.sub(at, cut + 1)
		local there = record(key)
		if not there then
			remove(index, key)
		else
			call('ZREM', EXPIRY, at)
			if there[1] ~= index then
				call('ZREM', PLACES, at)
			end
		end
	end
end
