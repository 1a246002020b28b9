//go:build !demo

package serve

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/traces"
)

// newToolset returns the toolset of an MCP server. It connects when the tools are needed.
func newToolset(name string, t *config.Tool, at *config.MCP, cache config.ToolCache, logger *slog.Logger) (cairn.Toolset, error) {
	opts := &mcp.Options{Prefix: t.Prefix, NoPrefix: t.Prefix == "", Allow: t.Allow, Approve: t.Approve, Effectful: t.Effectful, Deferred: t.Deferred, Timeout: time.Duration(t.Timeout), Logger: logger}
	opts.Required, opts.ListTimeout = at.Required, time.Duration(at.ListTimeout)
	opts.Resources, opts.IgnoreInstructions = at.Resources, at.IgnoreInstructions
	opts.Cache, opts.ProviderFields = cache.Policy(), t.FieldsFor()
	for variable, value := range at.Env {
		opts.Env = append(opts.Env, variable+"="+value)
	}
	for header, value := range at.Headers {
		if opts.Header == nil {
			opts.Header = http.Header{}
		}
		opts.Header.Set(header, value)
	}
	if at.URL != "" {
		opts.HTTPClient = &http.Client{Transport: traces.Transport(nil)}
		return mcp.URL(name, at.URL, opts)
	}
	return mcp.Command(name, at.Command, opts)
}
