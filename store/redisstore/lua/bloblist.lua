-- Returns up to ARGV[5] hashes of blobs that the owner names, from ARGV[4] on, each before the size of the blob.
local list = {}
for _, hash in ipairs(call('ZRANGEBYLEX', NAMES, ARGV[4], '+', 'LIMIT', 0, ARGV[5])) do
	list[#list + 1] = hash
	list[#list + 1] = text(call('HSTRLEN', P .. 'blob:' .. place(hash), 'data'))
end
return { 'ok', list }
