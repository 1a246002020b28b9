package engine

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// Compact summarizes the older part of a session's history now, as configured by its agent's [cairn.Compaction],
// regardless of its size. It keeps the latest messages as they are, up to the share Keep of the history's current
// tokens. The next run begins with the summary. The usage of the summary counts for the session, of failed attempts
// too. A run compacts by itself when its requests near the model's window.
//
// The error is ErrAlreadyRunning while a run holds the session, and ErrWaiting while it waits for calls. It is
// ErrInvalid if there is nothing older to summarize or its agent is not registered, and the model's error if it fails.
func (e *Engine) Compact(ctx context.Context, id string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	for {
		snap, err := e.store.Read(ctx, id, driver.ToDrive(0))
		if err != nil {
			return nil, err
		}
		row, err := e.compact(ctx, snap)
		if !errors.Is(err, cairn.ErrStale) {
			return row, err
		}
	}
}

// compact summarizes a session from snap. The error is ErrStale if the session has changed since.
func (e *Engine) compact(ctx context.Context, snap *driver.Contents) (*cairn.Session, error) {
	seen := snap.Session
	free := func(row *cairn.Session) error {
		switch {
		case row.Status == cairn.SessionActive:
			return driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q is already running", row.ID)
		case row.SuspendedStep != "":
			return driver.Conflict(cairn.ErrWaiting, row, "session %q is waiting for calls", row.ID)
		case row.Epoch != seen.Epoch || row.MessageCount != seen.MessageCount || row.Incarnation != seen.Incarnation:
			return driver.Conflict(cairn.ErrStale, row, "session %q has changed", row.ID)
		}
		return nil
	}
	if err := free(seen); err != nil {
		return nil, err
	}
	a := e.agent(seen.Agent)
	if a == nil {
		return nil, cairn.Invalid("agent", "session %q belongs to agent %q, which is not registered", seen.ID, seen.Agent)
	}
	m, usage, err := e.fx.Summarise(ctx, a, snap)
	if err != nil {
		e.beside(ctx, seen.ID, usage)
		return nil, err
	}
	m.ID = e.opts.NewID("msg")
	row, err := e.runs.Change(ctx, seen.ID, func(row *cairn.Session) (*driver.Commit, error) {
		if err := free(row); err != nil {
			return nil, err
		}
		return &driver.Commit{Guard: driver.Guard{Idle: true}, Messages: []cairn.Message{m}, UsageBeside: usage.Usage, UsageEntries: usage.Entries,
			Events: journal.Added(row.MessageCount, []cairn.Message{m})}, nil
	})
	if errors.Is(err, cairn.ErrStale) { // the caller makes another summary
		e.beside(ctx, seen.ID, usage.Discarded())
	}
	return row, err
}

// beside adds to a session the usage of model calls that belong to no run, and their events. It only logs errors.
func (e *Engine) beside(ctx context.Context, id string, usage step.Bill, events ...cairn.Event) {
	if usage.InputTokens+usage.OutputTokens+usage.CostNanos == 0 && len(events) == 0 {
		return
	}
	_, err := e.runs.Change(context.WithoutCancel(ctx), id, func(*cairn.Session) (*driver.Commit, error) {
		return &driver.Commit{UsageBeside: usage.Usage, UsageEntries: usage.Entries, Events: events}, nil
	})
	if err != nil && !errors.Is(err, cairn.ErrNotFound) {
		e.opts.Logger.Warn("usage of model calls not stored", "session", id, "usage", usage.Usage, "error", err)
	}
}
