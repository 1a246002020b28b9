-- Removes the log ARGV[1], and wakes its followers on the channel ARGV[2].
call('UNLINK', P .. 'e:' .. ARGV[1], P .. 'l:' .. ARGV[1])
call('PUBLISH', ARGV[2], '0 ')
return { 'ok' }
