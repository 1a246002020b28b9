package mcp

import (
	"log/slog"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// Options say how a server is reached and which of its tools agents can use. The zero value means all of them,
// without approval.
type Options struct {
	// Prefix begins the model's names for the server's tools. Default: the server's name and an underscore.
	Prefix string
	// NoPrefix omits the prefix.
	NoPrefix bool
	// Allow lists the tools that agents can use, by the server's names for them, as patterns of [path.Match].
	// Default: all.
	Allow []string
	// Approve lists the tools whose calls a person must approve, by the server's names for them, as patterns of
	// [path.Match]; "*" is every tool. The server's own hints about a tool, such as that it only reads, are ignored.
	// Default: none.
	Approve []string
	// Effectful lists the tools that change something that must not happen twice, by the server's names for them, as
	// patterns of [path.Match]; "*" is every tool. See [cairn.Effectful]. The server's hints, such as that a tool is
	// destructive or idempotent, are ignored. A call whose connection broke off has an unknown outcome; only a person is
	// asked then. Default: none.
	Effectful []string
	// Deferred makes the server's tools deferred where the agent's list of tools would be too large: the model then
	// finds them by a search, see [cairn.Deferred]. Tools that the server changes later are found like the others.
	// Default: all are listed.
	Deferred bool
	// Cache keeps results within a session, see [cairn.Cache], of tools that only read according to the server
	// (readOnlyHint) and need no approval. Default: none are kept.
	Cache *cairn.CachePolicy
	// Resources gives the model two tools, list_resources and read_resource, for the resources of a server that has
	// some. Patterns of Approve match them as "resources/list" and "resources/read"; Allow is about other tools. A session
	// that was without them gets them only if its list of tools is sent anew. Default: only the program reads resources.
	Resources bool
	// IgnoreInstructions leaves out the instructions that a server gives for the use of its tools. Default: the model
	// reads them with the list of tools, as a quoted text of the server, cut at 8 KiB.
	IgnoreInstructions bool
	// ProviderFields are merged into the form in which each of the server's tools is sent to a provider, by provider: see
	// [cairn.ProviderFields]. Tools that the toolset adds, such as the one that calls new tools, do not have them.
	// Default: none.
	ProviderFields map[string]map[string]any
	// Timeout limits a call. Default: 1 minute.
	Timeout time.Duration
	// Required makes a turn fail whose session has no tools of the server because the server did not list them within
	// ListTimeout. Default: such a turn continues without them, and [cairn.EventToolsMissing] names the server.
	Required bool
	// ListTimeout is how long a turn waits for the list of tools if none is known, such as while a command starts. The
	// engine's Options.HookTimeout limits it, too. Default: 15 seconds. See also [Server.Ready].
	ListTimeout time.Duration
	// MaxResult is the maximum size of a result's text in bytes; a larger one is an error of the call. Default: 1
	// MiB.
	MaxResult int

	// Env is the environment of a command, as "NAME=value", in addition to the variables that programs need to run
	// (PATH, HOME, USER, LANG, TMPDIR and the like). Default: nothing else, so that a server does not get the keys
	// of this process.
	Env []string
	// Dir is the working directory of a command. Default: the directory of this process.
	Dir string

	// Header is sent with each HTTP request.
	Header http.Header
	// HTTPClient makes the HTTP requests. It should have no timeout. Default: http.DefaultClient.
	HTTPClient *http.Client
	// Auth authorises HTTP requests: [ClientCredentials], or a [Connector] for access in the name of each user.
	// Default: only Header.
	Auth Auth

	// Logger gets failures of the server. Default: nothing is logged.
	Logger *slog.Logger
}

// fields returns the options that give a tool its fields for providers.
func (o *Options) fields() (list []cairn.ToolOption) {
	for provider, fields := range o.ProviderFields {
		list = append(list, cairn.ProviderFields(provider, fields))
	}
	return list
}

// maxPrefix leaves room for a tool's own name within the 64 characters of a name.
const maxPrefix = 32

// matches reports whether a tool matches one of the patterns.
func matches(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == "*" { // in path.Match it stops at a slash
			return true
		}
		ok, _ := path.Match(p, tool)
		return ok
	})
}
