module github.com/cairn-agents/cairn/examples

go 1.26.0

require (
	github.com/cairn-agents/cairn v0.0.0
	github.com/cairn-agents/cairn/mcp v0.0.0
	github.com/cairn-agents/cairn/memory v0.0.0
	github.com/cairn-agents/cairn/server v0.0.0
	github.com/cairn-agents/cairn/skill v0.0.0
	github.com/cairn-agents/cairn/store/pgstore v0.0.0
	github.com/cairn-agents/cairn/store/sqlitestore v0.0.0
	github.com/cairn-agents/cairn/traces v0.0.0
	github.com/cairn-agents/cairn/workspace v0.0.0
	go.opentelemetry.io/otel/sdk v1.44.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/kljensen/snowball v0.10.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.44.0 // indirect
	go.opentelemetry.io/otel/metric v1.44.0 // indirect
	go.opentelemetry.io/otel/trace v1.44.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)

replace (
	github.com/cairn-agents/cairn => ..
	github.com/cairn-agents/cairn/mcp => ../mcp
	github.com/cairn-agents/cairn/memory => ../memory
	github.com/cairn-agents/cairn/server => ../server
	github.com/cairn-agents/cairn/skill => ../skill
	github.com/cairn-agents/cairn/store/pgstore => ../store/pgstore
	github.com/cairn-agents/cairn/store/sqlitestore => ../store/sqlitestore
	github.com/cairn-agents/cairn/traces => ../traces
	github.com/cairn-agents/cairn/workspace => ../workspace
)
