if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then
	return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'head', ARGV[3], 'updated', ARGV[4])
redis.call('RPUSH', KEYS[2], ARGV[5], ARGV[6])
redis.call('RPUSH', KEYS[3], ARGV[7])
redis.call('HSET', KEYS[4], ARGV[8], '', ARGV[9], ARGV[10])
redis.call('RPUSH', KEYS[5], ARGV[11])
redis.call('DEL', KEYS[6])
return 1
