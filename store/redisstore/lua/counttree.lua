-- Returns how many sessions the tree of the root ARGV[1] has.
return { 'ok', call('ZCARD', P .. 'i:root:' .. ARGV[1]) }
