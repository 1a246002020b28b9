-- The scripts for the blobs of an owner begin with this file, after common.lua. ARGV[1] is the id of its root, ARGV[2] the
-- root's incarnation and ARGV[3] its tenant.
local OWNER, TENANT = ARGV[1] .. '\1' .. ARGV[2], ARGV[3]
local OWNERS, NAMES, UNNAMED = P .. 'blobs', P .. 'blobn:' .. OWNER, P .. 'blobu'

-- place returns what blobs are identified by.
local function place(hash)
	return TENANT .. ':' .. hash
end

-- name names a blob that is stored, for the owner.
local function name(hash)
	if call('ZADD', NAMES, 0, hash) == 1 and call('HINCRBY', P .. 'blob:' .. place(hash), 'names', 1) == 1 then
		call('ZREM', UNNAMED, place(hash))
	end
	call('ZADD', OWNERS, 0, OWNER)
end

-- owning returns nil if names can be added, and otherwise the answer.
local function owning()
	local row = load(ARGV[1])
	if not row then
		return missing(ARGV[1])
	end
	if row.root ~= ARGV[1] or (row.incarnation or '') ~= ARGV[2] then
		return { 'none' }
	end
end
