package inbox

import "github.com/cairn-agents/cairn/cmd/cairn/internal/stores"

// flags are the flags that all commands share.
type flags struct {
	At   stores.Tenanted `embed:""`
	JSON bool            `name:"json" help:"Print JSON: a page of calls, a call, or the receipt of an answer."`
}

// aCall is the argument of commands about one call.
type aCall struct {
	Call string `arg:"" help:"The call's id or its beginning."`
}
