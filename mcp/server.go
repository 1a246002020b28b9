package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
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

// Server is an MCP server whose tools agents are given: put it into [cairn.Agent.Toolsets]. It connects when it is needed, and
// again when the connection is lost. It is safe for concurrent use, by any number of agents.
type Server struct {
	name string
	opts Options
	dial dialer

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	closed bool
	links  map[string]*link // by the user that they are for; "" is for all
}

var _ cairn.Toolset = (*Server)(nil)

// Command returns the server that a command is, spoken to over its standard input and output. The command is started when it
// is needed, and ended by Close. Lines of its standard error are logged.
func Command(name string, command []string, opts *Options) (*Server, error) {
	if len(command) == 0 || command[0] == "" {
		return nil, cairn.Invalid("command", "MCP server %q: is empty", name)
	}
	s, err := newServer(name, opts)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth != nil || len(s.opts.Header) > 0 || s.opts.HTTPClient != nil {
		return nil, cairn.Invalid("auth", "MCP server %q: Auth, Header and HTTPClient are for servers over HTTP", name)
	}
	s.dial = &commandDialer{command: slices.Clone(command), opts: &s.opts, name: name}
	return s, nil
}

// URL returns the server at an http or https address, spoken to over streamable HTTP.
func URL(name, address string, opts *Options) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, cairn.Invalid("url", "MCP server %q: is not an http or https address without a password", name)
	}
	s, err := newServer(name, opts)
	if err != nil {
		return nil, err
	}
	if len(s.opts.Env) > 0 || s.opts.Dir != "" {
		return nil, cairn.Invalid("env", "MCP server %q: Env and Dir are for commands", name)
	}
	s.dial = &httpDialer{address: address, opts: &s.opts}
	if s.opts.Auth != nil {
		if err := s.opts.Auth.bind(name, address); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newServer(name string, opts *Options) (*Server, error) {
	if err := cairn.CheckSessionID(name); err != nil {
		return nil, cairn.Invalid("name", "MCP server %q: cannot be a name", name)
	}
	s := &Server{name: name, links: map[string]*link{}}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	o.Timeout, o.ListTimeout = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.ListTimeout, 2*time.Second)
	o.MaxResult = cmp.Or(o.MaxResult, 1<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.NoPrefix && o.Prefix != "":
		return nil, cairn.Invalid("prefix", "MCP server %q: set either Prefix or NoPrefix", name)
	case o.Prefix == "" && !o.NoPrefix:
		o.Prefix = plainName(name) + "_"
	}
	if o.Prefix != "" && (o.Prefix != plainName(o.Prefix) || len(o.Prefix) > maxPrefix || strings.ContainsAny(o.Prefix[:1], "0123456789-")) {
		return nil, cairn.Invalid("prefix", "MCP server %q: must be at most %d letters, digits, _ or -, not beginning with a digit or -", name, maxPrefix)
	}
	switch {
	case o.Timeout < 0:
		return nil, cairn.Invalid("timeout", "MCP server %q: is negative", name)
	case o.ListTimeout < 0:
		return nil, cairn.Invalid("list_timeout", "MCP server %q: is negative", name)
	case o.MaxResult < 0:
		return nil, cairn.Invalid("max_result", "MCP server %q: is negative", name)
	}
	for field, list := range map[string][]string{"allow": o.Allow, "approve": o.Approve} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				return nil, cairn.Invalid(field, "MCP server %q: %q is not a pattern", name, pattern)
			}
		}
	}
	for _, v := range o.Env {
		if !strings.Contains(v, "=") {
			return nil, cairn.Invalid("env", "MCP server %q: a variable has the form NAME=value", name)
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
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

// Name implements [cairn.Toolset].
func (s *Server) Name() string { return s.name }

// Close ends the connections, and the command if the server is one, and waits for that. Calls under way fail.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	links := s.links
	s.links = map[string]*link{}
	s.mu.Unlock()
	s.cancel()
	for _, l := range links {
		l.close()
	}
	s.work.Wait()
	return nil
}

// link returns what speaks to the server for a user.
func (s *Server) link(user string) (*link, error) {
	if s.opts.Auth == nil || !s.opts.Auth.perUser() {
		user = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, cairn.Errorf(cairn.CodeClosed, "MCP server %q is closed", s.name)
	}
	l := s.links[user]
	if l == nil {
		if len(s.links) >= maxLinks {
			s.evict()
		}
		l = &link{s: s, user: user}
		s.links[user] = l
	}
	l.used = time.Now()
	return l, nil
}

// maxLinks is for how many users a process is connected at once.
const maxLinks = 256

// evict gives up the connection that was not used for the longest time.
func (s *Server) evict() {
	var oldest string
	for user, l := range s.links {
		if o := s.links[oldest]; o == nil || l.used.Before(o.used) {
			oldest = user
		}
	}
	l := s.links[oldest]
	delete(s.links, oldest)
	s.start(func() { l.close() })
}

// start does something that Close waits for. The server's mutex is held.
func (s *Server) start(do func()) { s.work.Go(do) }

// Offer implements [cairn.Toolset]: it offers the server's tools, as far as they are known within Options.ListTimeout.
func (s *Server) Offer(ctx context.Context, step *cairn.Step, pinned json.RawMessage) (*cairn.Offer, error) {
	var before *offer
	if pinned != nil {
		before = new(offer)
		if err := json.Unmarshal(pinned, before); err != nil {
			return nil, fmt.Errorf("what is pinned does not decode: %w", err)
		}
	}
	l, err := s.link(step.UserID)
	if err != nil {
		return nil, err
	}
	list, err := l.list(ctx, before != nil && !before.Connect)
	switch {
	case needsConnect(err):
		if before != nil {
			return nil, nil
		}
		return s.pin(nil, &offer{Connect: true}, fmt.Sprintf("The tools of %s are there once the user has connected an account; %sconnect asks for it.", s.name, s.opts.Prefix))
	case err != nil:
		return nil, err
	case list == nil:
		return nil, nil
	}
	now, note := before.next(s, list)
	return s.pin(before, now, note)
}

func (s *Server) pin(before, now *offer, note string) (*cairn.Offer, error) {
	if note == "" {
		return nil, nil
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	return &cairn.Offer{Pinned: raw, Note: note}, nil
}
