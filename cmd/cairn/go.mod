module github.com/cairn-agents/cairn/cmd/cairn

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/cairn-agents/cairn v0.0.0
	github.com/cairn-agents/cairn/model/openai v0.0.0
	github.com/cairn-agents/cairn/store/sqlitestore v0.0.0
	github.com/mattn/go-isatty v0.0.24
	modernc.org/sqlite v1.60.1
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/openai/openai-go/v3 v3.94.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace (
	github.com/cairn-agents/cairn => ../..
	github.com/cairn-agents/cairn/model/openai => ../../model/openai
	github.com/cairn-agents/cairn/store/sqlitestore => ../../store/sqlitestore
)
