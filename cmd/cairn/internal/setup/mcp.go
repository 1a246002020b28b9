//go:build !demo

package setup

import (
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/mcp"
)

// servers opens the MCP servers that the command line names as toolsets of the agent. Each of their calls needs
// approval.
func servers(list []string, logger *slog.Logger) (toolsets []cairn.Toolset, closing []func() error, err error) {
	seen := map[string]int{}
	for _, given := range list {
		// A user who names a server would rather wait for it to start than miss its tools.
		opts := &mcp.Options{Approve: []string{"*"}, ListTimeout: 30 * time.Second, Logger: logger}
		var s *mcp.Server
		if u, bad := url.Parse(given); bad == nil && (u.Scheme == "http" || u.Scheme == "https") {
			s, err = mcp.URL(serverName(u.Hostname(), seen), given, opts)
		} else if command := strings.Fields(given); len(command) > 0 {
			base := filepath.Base(command[0])
			s, err = mcp.Command(serverName(strings.TrimSuffix(base, path.Ext(base)), seen), command, opts)
		} else {
			err = cli.Misuse("--mcp: must be a command or a URL")
		}
		if err != nil {
			return nil, closing, err
		}
		toolsets, closing = append(toolsets, s), append(closing, s.Close)
	}
	return toolsets, closing, nil
}

// serverName derives a server's name from its command or address. Further servers of the same name get a number.
func serverName(of string, seen map[string]int) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, of)
	if name == "" || strings.ContainsAny(name[:1], "0123456789-") {
		name = "mcp_" + name
	}
	name = name[:min(len(name), 24)]
	if seen[name]++; seen[name] > 1 {
		name = fmt.Sprintf("%s_%d", name, seen[name])
	}
	return name
}
