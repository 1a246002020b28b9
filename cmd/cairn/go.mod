module github.com/cairn-agents/cairn/cmd/cairn

go 1.26.0

require (
	github.com/BurntSushi/toml v1.4.0
	github.com/alecthomas/kong v1.17.0
	github.com/cairn-agents/cairn v0.0.0
	github.com/cairn-agents/cairn/host/dboshost v0.0.0
	github.com/cairn-agents/cairn/host/temporalhost v0.0.0
	github.com/cairn-agents/cairn/model/open v0.0.0
	github.com/cairn-agents/cairn/store/pgstore v0.0.0
	github.com/cairn-agents/cairn/store/redisstore v0.0.0
	github.com/cairn-agents/cairn/store/sqlitestore v0.0.0
	github.com/mattn/go-isatty v0.0.24
	github.com/redis/go-redis/v9 v9.23.0
	go.temporal.io/api v1.64.3
	go.temporal.io/sdk v1.51.0
	go.temporal.io/sdk/contrib/envconfig v1.0.2
	go.yaml.in/yaml/v4 v4.0.0
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
	modernc.org/sqlite v1.60.1
)

require (
	github.com/cairn-agents/cairn/model/gemini v0.0.0
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/go-jose/go-jose/v4 v4.1.8 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.69.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	google.golang.org/api v0.264.0 // indirect
)

require (
	github.com/anthropics/anthropic-sdk-go v1.84.0 // indirect
	github.com/bahlo/generic-list-go v0.2.0 // indirect
	github.com/buger/jsonparser v1.1.2 // indirect
	github.com/cairn-agents/cairn/mcp v0.0.0
	github.com/cairn-agents/cairn/model/anthropic v0.0.0
	github.com/cairn-agents/cairn/model/openai v0.0.0
	github.com/cairn-agents/cairn/server v0.0.0
	github.com/cairn-agents/cairn/skill v0.0.0
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coder/websocket v1.8.15 // indirect
	github.com/dbos-inc/dbos-transact-golang v1.8.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/facebookgo/clock v0.0.0-20150410010913-600d898af40a // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/mock v1.6.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/go-grpc-middleware/v2 v2.3.2 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.22.0 // indirect
	github.com/invopop/jsonschema v0.14.0 // indirect
	github.com/jackc/pgerrcode v0.0.0-20250907135507-afb5586c32a6 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/nexus-rpc/nexus-proto-annotations v0.1.0 // indirect
	github.com/nexus-rpc/sdk-go v0.7.0 // indirect
	github.com/openai/openai-go/v3 v3.96.0 // indirect
	github.com/pb33f/ordered-map/v2 v2.3.1 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/robfig/cron v1.2.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1 // indirect
	github.com/stretchr/objx v0.5.3 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.44.0 // indirect
	go.opentelemetry.io/otel/metric v1.44.0 // indirect
	go.opentelemetry.io/otel/trace v1.44.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace (
	github.com/cairn-agents/cairn => ../..
	github.com/cairn-agents/cairn/host/dboshost => ../../host/dboshost
	github.com/cairn-agents/cairn/host/temporalhost => ../../host/temporalhost
	github.com/cairn-agents/cairn/model/anthropic => ../../model/anthropic
	github.com/cairn-agents/cairn/model/gemini => ../../model/gemini
	github.com/cairn-agents/cairn/model/open => ../../model/open
	github.com/cairn-agents/cairn/model/openai => ../../model/openai
	github.com/cairn-agents/cairn/store/pgstore => ../../store/pgstore
	github.com/cairn-agents/cairn/store/redisstore => ../../store/redisstore
	github.com/cairn-agents/cairn/store/sqlitestore => ../../store/sqlitestore
)

replace github.com/cairn-agents/cairn/server => ../../server

replace github.com/cairn-agents/cairn/mcp => ../../mcp

replace github.com/cairn-agents/cairn/skill => ../../skill
