module github.com/cairn-agents/cairn/server

go 1.26.0

require (
	github.com/cairn-agents/cairn v0.0.0
	golang.org/x/time v0.16.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.8
	github.com/google/jsonschema-go v0.4.3
)

replace github.com/cairn-agents/cairn => ..
