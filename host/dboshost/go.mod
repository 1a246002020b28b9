module github.com/cairn-agents/cairn/host/dboshost

go 1.26.0

require (
	github.com/cairn-agents/cairn v0.0.0
	github.com/cairn-agents/cairn/store/pgstore v0.0.0
	github.com/cairn-agents/cairn/store/redisstore v0.0.0
	github.com/cairn-agents/cairn/store/sqlitestore v0.0.0
	github.com/dbos-inc/dbos-transact-golang v1.2.0
)

replace (
	github.com/cairn-agents/cairn => ../..
	github.com/cairn-agents/cairn/store/pgstore => ../../store/pgstore
	github.com/cairn-agents/cairn/store/redisstore => ../../store/redisstore
	github.com/cairn-agents/cairn/store/sqlitestore => ../../store/sqlitestore
)
