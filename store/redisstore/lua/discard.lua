-- Removes the keys ARGV[2] and following of an import that has failed, whose names begin with ARGV[1].
for i = 2, #ARGV do
	call('UNLINK', P .. 'y:' .. ARGV[1] .. ':' .. ARGV[i])
end
return { 'ok' }
