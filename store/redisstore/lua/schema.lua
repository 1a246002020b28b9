-- Sets the version of the layout and the number of buckets in KEYS[1] to ARGV[1] and ARGV[2], unless it has them.
-- Nothing fails from here on.
redis.call('HSETNX', KEYS[1], 'version', ARGV[1])
redis.call('HSETNX', KEYS[1], 'buckets', ARGV[2])
return { 'ok' }
