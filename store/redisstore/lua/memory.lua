-- The scripts for memories begin with this file, after common.lua. ARGV[1] is the kind and the name of the scope.
local SCOPE, NOW = ARGV[1], clock()
local HEAD, ENTRIES, KEYS_OF = P .. 'memh:' .. SCOPE, P .. 'meme:' .. SCOPE, P .. 'memk:' .. SCOPE
local SCOPES, DUE = P .. 'mems', P .. 'memd'
