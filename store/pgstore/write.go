package pgstore

import (
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// write is one commit: the encoded values that do not depend on the session, and then the delta.
type write struct {
	id string
	c  *driver.Commit

	messages   []string
	checkpoint names
	startData  string
	endData    string
	turnData   string
	calls      callColumns
	cache      cacheColumns

	// The delta and the session that it is written to; a key of 0 creates a session.
	d        *plan.Delta
	key      int64
	headData string
	usage    string
	events   []byte
	undated  bool  // some events have no time
	last     int64 // the sequence of the last event, once they are written

	result *cairn.Session
	left   *knownSession // the session as the write left it
}

// prepare encodes what a commit writes.
func (d *database) prepare(id string, c *driver.Commit) (*write, error) {
	if err := c.ValidateFor(driver.Abilities{Dialect: dialect, MaxEvent: d.opts.MaxEvent}); err != nil {
		return nil, err
	}
	w := &write{id: id, c: c}
	if c.Create != nil {
		if err := cairn.CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{w.encodeContent, w.encodeRecords} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *write) encodeContent() (err error) {
	w.messages = make([]string, len(w.c.Messages))
	for i := range w.c.Messages {
		if w.messages[i], err = encodeMessage(&w.c.Messages[i]); err != nil {
			return err
		}
	}
	if run := w.c.StartRun; run != nil {
		if w.startData, err = encodeRun(run, 0); err != nil {
			return err
		}
	}
	return nil
}

func (w *write) encodeRecords() (err error) {
	if err = w.calls.fill(w.c.Calls); err != nil {
		return err
	}
	if w.c.Enqueue != nil {
		if w.turnData, err = backend.EncodeJSON("queued turn", w.c.Enqueue); err != nil {
			return err
		}
	}
	return w.cache.fill(w.c.Cache, w.c.CacheDrop)
}

// encodeDelta encodes what depends on the session.
func (w *write) encodeDelta() (err error) {
	if w.d.Checkpoint != nil {
		w.checkpoint = namesOf(w.d.Checkpoint, w.d.Row)
	}
	if w.d.EndRun != nil {
		if w.endData, err = encodeRun(w.d.EndRun, w.d.TextAt); err != nil {
			return err
		}
	}
	if w.headData, err = encodeHead(w.d.Row, w.d.Checkpoints); err != nil {
		return err
	}
	if w.d.Usage != nil {
		if w.usage, err = backend.UsageRowText(w.d.Usage, false); err != nil {
			return err
		}
	}
	w.undated = slices.ContainsFunc(w.d.Events, func(ev cairn.Event) bool { return ev.Time.IsZero() })
	if len(w.d.Events) > 0 {
		w.events, err = backend.EncodeEvents(w.d.Finished())
	}
	return err
}

func (w *write) repeat() repeat {
	if w.c.StartRun != nil && w.c.StartRun.ID != "" || w.c.Checkpoint != nil && w.c.Checkpoint.StepID != "" {
		return again
	}
	return once
}

// answer is what the server answers to a write.
type answer struct {
	key          int64 // of the session; 0 if a log is missing
	updated, now time.Time
	until        *time.Time
	logged       *int64 // the sequence of the last event, if there are events
}

// columns returns where the columns of an answer are read to.
func (a *answer) columns() []any { return []any{&a.key, &a.updated, &a.until, &a.now, &a.logged} }

// written makes the written row the result.
func (w *write) written(a *answer) {
	w.d.At(a.updated)
	row := w.d.RowAt(a.now)
	row.UpdatedAt, row.Lease.Until = a.updated.UTC(), instant(a.until)
	if row.AsOf.Before(row.UpdatedAt) { // the server's clock was set back
		row.AsOf = row.UpdatedAt
	}
	w.result, w.left = backend.CopyRow(row), &knownSession{a.key, row, w.d.Checkpoints}
	if a.logged != nil {
		w.place(*a.logged)
	}
}

// ownMessages reports whether all messages of the write belong to the session's run, so that its turn names their run.
func (w *write) ownMessages() bool {
	for i := range w.c.Messages {
		if run := runOf(&w.c.Messages[i]); run == nil || *run != w.d.Row.RunID {
			return false
		}
	}
	return true
}

// messageRuns returns the run of each message, or nil if the turn names it or no message has one.
func (w *write) messageRuns() (runs []*string) {
	if w.ownMessages() {
		return nil
	}
	for i := range w.c.Messages {
		run := runOf(&w.c.Messages[i])
		if run != nil && runs == nil {
			runs = make([]*string, len(w.c.Messages))
		}
		if run != nil {
			runs[i] = run
		}
	}
	return runs
}
