-- Returns up to ARGV[2] namespaces of the bucket, from ARGV[1] on.
return { 'ok', call('ZRANGEBYLEX', P .. 'vs', ARGV[1], '+', 'LIMIT', 0, ARGV[2]) }
