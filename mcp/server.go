package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// Server is an MCP server whose tools agents can use: put it into [cairn.Agent.Toolsets]. It connects on demand,
// and again when the connection is lost. It is safe for concurrent use, by any number of agents.
type Server struct {
	endpoint
	links map[string]*link // by user; "" is for all users. Guarded by the mutex.
}

var (
	_ cairn.RequiredToolset = (*Server)(nil)
	_ cairn.RestatedToolset = (*Server)(nil)
)

// Command returns the server that a command runs, reached over its standard input and output. The command is
// started on demand and ended by Close. Lines of its standard error are logged.
func Command(name string, command []string, opts *Options) (*Server, error) {
	if len(command) == 0 || command[0] == "" {
		return nil, cairn.Invalid("command", "MCP server %q: command is empty", name)
	}
	s, err := newServer(name, opts)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth != nil || len(s.opts.Header) > 0 || s.opts.HTTPClient != nil {
		return nil, cairn.Invalid("auth", "MCP server %q: Auth, Header and HTTPClient are only for servers over HTTP", name)
	}
	s.dial = &commandDialer{command: slices.Clone(command), opts: &s.opts, name: name}
	return s, nil
}

// URL returns the server at an http or https address, reached over streamable HTTP.
func URL(name, address string, opts *Options) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, cairn.Invalid("url", "MCP server %q: URL must be http or https without a password", name)
	}
	s, err := newServer(name, opts)
	if err != nil {
		return nil, err
	}
	if len(s.opts.Env) > 0 || s.opts.Dir != "" {
		return nil, cairn.Invalid("env", "MCP server %q: Env and Dir are only for commands", name)
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
		return nil, cairn.Invalid("name", "invalid name %q of an MCP server", name)
	}
	s := &Server{endpoint: endpoint{name: name}, links: map[string]*link{}}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	o.Timeout, o.ListTimeout = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.ListTimeout, 15*time.Second)
	o.MaxResult = cmp.Or(o.MaxResult, 1<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.NoPrefix && o.Prefix != "":
		return nil, cairn.Invalid("prefix", "MCP server %q: set either Prefix or NoPrefix, not both", name)
	case o.Prefix == "" && !o.NoPrefix:
		o.Prefix = plainName(name) + "_"
	}
	if o.Prefix != "" && (o.Prefix != plainName(o.Prefix) || len(o.Prefix) > maxPrefix || strings.ContainsAny(o.Prefix[:1], "0123456789-")) {
		return nil, cairn.Invalid("prefix", "MCP server %q: Prefix must be at most %d letters, digits, _ or -, not beginning with a digit or -", name, maxPrefix)
	}
	switch {
	case o.Timeout < 0:
		return nil, cairn.Invalid("timeout", "MCP server %q: Timeout is negative", name)
	case o.ListTimeout < 0:
		return nil, cairn.Invalid("list_timeout", "MCP server %q: ListTimeout is negative", name)
	case o.MaxResult < 0:
		return nil, cairn.Invalid("max_result", "MCP server %q: MaxResult is negative", name)
	}
	for field, list := range map[string][]string{"allow": o.Allow, "approve": o.Approve, "effectful": o.Effectful} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				return nil, cairn.Invalid(field, "MCP server %q: invalid pattern %q", name, pattern)
			}
		}
	}
	probe := cairn.RawClientTool("probe", "", json.RawMessage(`{"type":"object"}`), nil, o.fields()...)
	if err := define.Of(&probe).Err; err != nil {
		return nil, cairn.Invalid("provider_fields", "MCP server %q: %v", name, err)
	}
	for _, v := range o.Env {
		if !strings.Contains(v, "=") {
			return nil, cairn.Invalid("env", "MCP server %q: variables must have the form NAME=value", name)
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Name implements [cairn.Toolset].
func (s *Server) Name() string { return s.name }

// Required implements [cairn.RequiredToolset].
func (s *Server) Required() bool { return s.opts.Required }

// Ready waits until the server has started and its tools are known, so that the first turn does not have to. If they
// cannot be listed, the error says why, and a later call tries again. If ctx ends first, the error is its cause, and
// the server continues to start. A server at which each user has an account of their own has no common list: the error
// is ErrInvalid.
func (s *Server) Ready(ctx context.Context) error {
	if s.opts.Auth != nil && s.opts.Auth.perUser() {
		return cairn.Invalid("auth", "MCP server %q: each user has a separate list of tools", s.name)
	}
	l, err := s.link("")
	if err != nil {
		return err
	}
	if _, err := l.await(ctx); err != nil {
		return fmt.Errorf("MCP server %q is not ready: %w", s.name, err)
	}
	return nil
}

// Close ends the connections, and the command if the server has one, and waits until they have ended. Calls under
// way fail.
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

// link returns the link to the server for a user.
func (s *Server) link(user string) (*link, error) {
	if s.opts.Auth == nil || !s.opts.Auth.perUser() {
		user = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, cairn.Errorf(cairn.ErrClosed, "MCP server %q is closed", s.name)
	}
	l := s.links[user]
	if l == nil {
		if len(s.links) >= maxLinks {
			s.evict()
		}
		l = &link{e: &s.endpoint, user: user}
		s.links[user] = l
	}
	l.used = time.Now()
	return l, nil
}

// maxLinks is the number of users for which a process holds connections at once.
const maxLinks = 256

// evict closes the connection that was unused for the longest time.
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
