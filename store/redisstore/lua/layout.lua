-- Returns what KEYS[1] says of the layout: its version, the number of buckets, and min_build, the version of the oldest
-- programs that may use the keys, which is the layout's version unless a program says otherwise. Returns zeros if the
-- key is not this store's, and nothing if there is no such key.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
	return {}
elseif kind ~= 'hash' then
	return { 0, 0, 0 }
end
local found = redis.call('HMGET', KEYS[1], 'version', 'buckets', 'min_build')
return { tonumber(found[1]) or 0, tonumber(found[2]) or 0, tonumber(found[3]) or tonumber(found[1]) or 0 }
