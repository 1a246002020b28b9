-- Removes the keys ARGV[2] and following of a failed import, whose names begin with ARGV[1].
-- Nothing fails from here on.
for i = 2, #ARGV do
	call('UNLINK', P .. 'y:' .. ARGV[1] .. ':' .. ARGV[i])
end
return { 'ok' }
