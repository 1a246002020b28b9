package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/store"
)

// toolsets holds this process's connections to MCP servers and its workspaces, one for each distinct declaration. A reload
// therefore keeps those of unchanged declarations.
type toolsets struct {
	env    map[string]string
	logger *slog.Logger

	mu     sync.Mutex
	open   map[string]cairn.Toolset
	closed []io.Closer
}

// of returns the toolset that a tool of an assistant declares. cache says which results are kept. taken are the
// names of the assistant's other toolsets.
func (s *toolsets) of(t *config.Tool, cache config.ToolCache, taken []string) (cairn.Toolset, error) {
	name := serverName(t.MCP)
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("%s-%d", serverName(t.MCP), n)
	}
	raw, err := json.Marshal([]any{t, cache})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := name + " " + string(raw)
	if ts := s.open[id]; ts != nil {
		return ts, nil
	}
	m, err := s.expanded(t.MCP)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: %w", name, err)
	}
	ts, err := newToolset(name, t, m, cache, s.logger)
	if err != nil {
		return nil, err
	}
	s.keep(id, ts)
	return ts, nil
}

// workspace returns the workspaces that an assistant declares. Assistants with equal declarations share them.
func (s *toolsets) workspace(w *config.Workspace, st store.Store) (cairn.Workspace, error) {
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := "workspace " + string(raw)
	if ws, ok := s.open[id].(cairn.Workspace); ok {
		return ws, nil
	}
	ws, err := newWorkspace(w, st, s.logger)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	s.keep(id, ws)
	return ws, nil
}

// keep keeps a toolset for later declarations.
func (s *toolsets) keep(id string, ts cairn.Toolset) {
	if s.open == nil {
		s.open = map[string]cairn.Toolset{}
	}
	s.open[id] = ts
	if c, ok := ts.(io.Closer); ok {
		s.closed = append(s.closed, c)
	}
}

// serverName names a server by its command or host, the same for every version of an assistant.
func serverName(m *config.MCP) string {
	if len(m.Command) > 0 {
		name := path.Base(m.Command[0])
		return cmp.Or(strings.TrimSuffix(name, path.Ext(name)), name)
	}
	_, host, whole := strings.Cut(m.URL, "://")
	if !whole { // a variable has the address
		return m.URL
	}
	host, _, _ = strings.Cut(host, "/")
	return host
}

// expanded returns a server's declaration with the environment variables of this process expanded.
func (s *toolsets) expanded(m *config.MCP) (*config.MCP, error) {
	out := new(*m)
	out.Command, out.Env, out.Headers = nil, map[string]string{}, map[string]string{}
	var errs error
	expand := func(text string) string {
		text, err := config.Expand(text, s.env)
		errs = errors.Join(errs, err)
		return text
	}
	out.URL = expand(m.URL)
	for _, word := range m.Command {
		out.Command = append(out.Command, expand(word))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		out.Env[name] = expand(m.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		out.Headers[name] = expand(m.Headers[name])
	}
	return out, errs
}

// close closes the connections.
func (s *toolsets) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs error
	for _, c := range s.closed {
		errs = errors.Join(errs, c.Close())
	}
	return errs
}
