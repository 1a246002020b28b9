module github.com/cairn-agents/cairn/store/dostore

go 1.26.0

require (
	github.com/cairn-agents/cairn v0.0.0
	github.com/coder/websocket v1.8.15
)

require github.com/google/jsonschema-go v0.4.3 // indirect

replace github.com/cairn-agents/cairn => ../..
