//go:build !demo || serve

package main

import (
	"github.com/cairn-agents/cairn/cmd/cairn/internal/chat"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/memories"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/skills"
)

// serving holds the commands about servers, skills and memories. The demo build omits them and compiles faster.
type serving struct {
	Serve   serve.Command `cmd:"" help:"Serve the assistants of a configuration file over HTTP."`
	Console serve.Console `cmd:"" help:"Serve the console over a store, to a browser of this machine."`
	Chat    chat.Command  `cmd:"" help:"Talk to an agent of a server. Lines on standard input work too."`
	Token   serve.Token   `cmd:"" help:"Generate a token for a server's configuration file."`

	Skills skills.Commands   `cmd:"" help:"List skills, check them, and copy them from repositories."`
	Memory memories.Commands `cmd:"" help:"Search, correct, promote and forget the memories of users, sessions and groups."`
}
