//go:build !demo || serve

package main

import (
	"github.com/cairn-agents/cairn/cmd/cairn/internal/chat"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/skills"
)

// serving holds the commands about servers and skills. The demo build omits them and compiles faster.
type serving struct {
	Serve serve.Command `cmd:"" help:"Serve the assistants of a configuration file over HTTP."`
	Chat  chat.Command  `cmd:"" help:"Talk to an agent of a server. Lines on standard input work too."`
	Token serve.Token   `cmd:"" help:"Generate a token for a server's configuration file."`

	Skills skills.Commands `cmd:"" help:"List skills, and check them."`
}
