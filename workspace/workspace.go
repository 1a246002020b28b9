package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store/driver"
)

// Workspace gives the sessions of agents a directory each. Its state is in a store: the directories are caches of it. It
// is safe for concurrent use, and agents may share one.
type Workspace struct {
	blobs    driver.Blobs
	provider Provider
	info     Info
	opts     Options
	tools    []string
	approve  []*regexp.Regexp

	mu     sync.Mutex
	open   map[string]*session // by id of their directory
	closed bool
}

// New returns a workspace whose snapshots are in a store, with the directories of a provider. The error is ErrInvalid if
// the store keeps no blobs, or names an option.
func New(st driver.Store, provider Provider, opts *Options) (*Workspace, error) {
	p, ok := driver.As[driver.BlobProvider](st)
	if !ok {
		return nil, cairn.Invalid("store", "%T keeps no blobs: it is not a driver.BlobProvider", st)
	}
	if provider == nil {
		return nil, cairn.Invalid("provider", "is nil")
	}
	w := &Workspace{blobs: p.Blobs(), provider: provider, info: provider.Info(), open: map[string]*session{}}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if w.opts.Limits, err = w.opts.Limits.withDefaults(); err != nil {
		return nil, err
	}
	if err := w.opts.Manifest.check(w.info); err != nil {
		return nil, err
	}
	for _, text := range w.opts.Approve {
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, cairn.Invalid("approve", "%v", err)
		}
		w.approve = append(w.approve, re)
	}
	if w.tools, err = selectTools(&w.opts, w.info); err != nil {
		return nil, err
	}
	if slices.Contains(w.tools, "run") {
		if err := findInterpreters(w.provider, &w.opts); err != nil {
			return nil, err
		}
	}
	if err := w.checkTools(); err != nil {
		return nil, err
	}
	return w, nil
}

// checkTools returns an ErrInvalid error if the options of a tool contradict each other.
func (w *Workspace) checkTools() error {
	raw, err := json.Marshal(pinned{Tools: w.tools})
	if err != nil {
		return err
	}
	_, problems := define.Offered(&cairn.Agent{Workspace: w}, nil, map[string]json.RawMessage{toolsetName: raw})
	if len(problems) > 0 {
		return cairn.Invalid("tool_options", "%v", errors.Join(problems...))
	}
	return nil
}

// enter waits for the turn of a call at a session's directory, and opens it.
func (w *Workspace) enter(ctx context.Context, id string) (*session, error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, cairn.Errorf(cairn.ErrClosed, "the workspace is closed")
	}
	s := w.open[id]
	if s == nil {
		s = &session{turn: make(chan struct{}, 1), processes: map[string]*background{}}
		w.open[id] = s
	}
	s.users++
	w.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		w.forget(id, s)
		return nil, cairn.ContextError(ctx, "the wait for the workspace")
	}
	if s.dir == nil {
		dir, err := w.provider.Open(ctx, id)
		if err != nil {
			w.leave(id, s)
			return nil, err
		}
		s.dir = dir
	}
	return s, nil
}

// leave ends the turn of a call. The directory stays open for commands in the background, and for their last changes.
func (w *Workspace) leave(id string, s *session) {
	if s.dir != nil && !s.busy(0) && !s.unsaved {
		if err := s.dir.Close(); err != nil {
			w.opts.Logger.Warn("close the directory of a workspace", "error", err)
		}
		s.dir, s.ref = nil, ""
	}
	<-s.turn
	w.forget(id, s)
}

// forget removes a session without users, unless it has background commands whose output may be read.
func (w *Workspace) forget(id string, s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.users--; s.users == 0 && len(s.processes) == 0 && w.open[id] == s {
		delete(w.open, id)
	}
}

// Close kills the commands that run in the background. Later calls of tools fail with ErrClosed.
func (w *Workspace) Close() error {
	w.mu.Lock()
	w.closed = true
	open := maps.Clone(w.open)
	for _, s := range open {
		s.users++
	}
	w.mu.Unlock()
	for id, s := range open {
		s.turn <- struct{}{}
		s.end()
		s.unsaved = false
		w.leave(id, s)
	}
	return nil
}
