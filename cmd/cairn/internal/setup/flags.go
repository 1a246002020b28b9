package setup

import (
	"github.com/cairn-agents/cairn/cmd/cairn/internal/hosts"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
)

// Flags select where sessions and orders are, what drives runs, and which model answers.
type Flags struct {
	At      stores.Flags `embed:""`
	On      hosts.Flags  `embed:""`
	Answers modelFlags   `embed:""`
	MCP     []string     `name:"mcp" sep:"none" placeholder:"COMMAND|URL" help:"MCP server whose tools the agent also has: a command with its arguments, or an address. Each call asks for approval. May be given several times."`
	Shop    string       `placeholder:"PATH" help:"SQLite file of the shop's orders. Default: next to the file of the sessions, else cairn-demo-shop.db in the current directory."`
}
