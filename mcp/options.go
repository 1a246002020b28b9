package mcp

import (
	"log/slog"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// Options say how a server is reached and which of its tools agents are given. The zero value gives all of them, without
// approval.
type Options struct {
	// Prefix begins the names that the model has for the server's tools. Default: the server's name and an underscore.
	Prefix string
	// NoPrefix leaves the prefix out.
	NoPrefix bool
	// Allow are the tools that agents are given, by the server's names for them, as patterns of [path.Match]. Default: all.
	Allow []string
	// Approve are the tools whose calls a person must approve, by the server's names for them, as patterns of [path.Match];
	// "*" is every tool. What the server says of a tool, as that it only reads, is of no account. Default: none.
	Approve []string
	// Deferred has the model find the server's tools where the agent's list of tools would be too large, see [cairn.Deferred].
	// Tools that the server changes later are then found like the others. Default: all are listed.
	Deferred bool
	// Cache keeps results within a session, as [cairn.Cache] says, of tools that only read by the server's word (readOnlyHint)
	// and need no approval. Default: none are kept.
	Cache *cairn.CachePolicy
	// Timeout bounds a call. Default: 1 minute.
	Timeout time.Duration
	// ListTimeout is how long a turn waits for the list of tools where none is known. Default: 2 seconds.
	ListTimeout time.Duration
	// MaxResult is how many bytes of text a result may have; a larger one is an error of the call. Default: 1 MiB.
	MaxResult int

	// Env is the environment of a command, as "NAME=value", beside the variables that programs need to run (PATH, HOME,
	// USER, LANG, TMPDIR and the like). Default: nothing else, so that a server does not get the keys of this process.
	Env []string
	// Dir is the directory that a command runs in. Default: that of this process.
	Dir string

	// Header is sent with each HTTP request.
	Header http.Header
	// HTTPClient makes the HTTP requests. It should have no timeout. Default: http.DefaultClient.
	HTTPClient *http.Client
	// Auth authorises HTTP requests: [ClientCredentials], or a [Connector] for what each user may do. Default: none, beside
	// what Header has.
	Auth Auth

	// Logger gets what goes wrong with the server. Default: nothing is logged.
	Logger *slog.Logger
}

// maxPrefix leaves room for a tool's own name among the 64 characters of one.
const maxPrefix = 32

// matches reports whether a tool is one of a list of patterns.
func matches(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == "*" { // of path.Match it stops at a slash
			return true
		}
		ok, _ := path.Match(p, tool)
		return ok
	})
}
