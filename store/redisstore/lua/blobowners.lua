-- Returns up to ARGV[2] owners of blobs, from ARGV[1] on.
return { 'ok', call('ZRANGEBYLEX', P .. 'blobs', ARGV[1], '+', 'LIMIT', 0, ARGV[2]) }
