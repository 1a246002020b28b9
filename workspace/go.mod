module github.com/cairn-agents/cairn/workspace

go 1.26.0

require github.com/cairn-agents/cairn v0.0.0-00010101000000-000000000000

require github.com/google/jsonschema-go v0.4.3 // indirect

replace github.com/cairn-agents/cairn => ../
