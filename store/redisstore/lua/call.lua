-- Answers the record of the call ARGV[2] of the tree ARGV[1].
return { 'ok', call('HMGET', P .. 'w:' .. ARGV[1], ARGV[2]) }
