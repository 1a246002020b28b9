module github.com/cairn-agents/cairn/skill

go 1.26.0

require (
	github.com/cairn-agents/cairn v0.0.0-00010101000000-000000000000
	go.yaml.in/yaml/v4 v4.0.0
)

require github.com/google/jsonschema-go v0.4.3 // indirect

replace github.com/cairn-agents/cairn => ../
