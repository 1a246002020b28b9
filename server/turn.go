package server

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/server/internal/shared"
	"github.com/cairn-agents/cairn/server/internal/sse"
	"github.com/cairn-agents/cairn/store"
)

// turnOf returns the runs of a run's turn, in order, up to that run. It searches from the end of the list, where
// the run usually is.
func (c *request) turnOf(session, runID string) (turn []cairn.Run, err error) {
	for r, err := range store.All(func(cursor string) (store.Page[cairn.Run], error) {
		return c.h.eng.Runs(c.ctx, session, store.PageQuery{Newest: true, Limit: 20, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		if r.ID != runID {
			continue
		}
		turn = append(turn, *r)
		if runID = r.PreviousRunID; runID == "" {
			break
		}
	}
	slices.Reverse(turn)
	return turn, nil
}

// queued returns the turn of a queued run. It begins after everything that the session's log had before.
func queued(runID string, before int64) []cairn.Run {
	return []cairn.Run{{ID: runID, StartSequence: before}}
}

// turn streams a turn, given the runs of it that have begun. Without seen it streams the whole turn, otherwise what
// follows the run that the client saw last. If that run is unknown, the last but one is assumed.
func (c *request) turn(row *cairn.Session, runs []cairn.Run, v aisdk.Version, seen *string) error {
	if len(runs) == 0 {
		return &cairn.Error{Code: cairn.ErrNotFound, Field: "id", Message: "session has no turn"}
	}
	t := turnReader{eng: c.h.eng, id: row.ID, session: c.bareID(row.ID), bare: c.tenant() != "", first: runs[0].ID,
		enc: aisdk.New(v, c.bareID(row.ID), aisdk.TurnID(runs[0].ID))}
	t.enc.Address = c.addresses()
	if seen != nil {
		t.from = runs[len(runs)-1].ID
		if i := slices.IndexFunc(runs, func(r cairn.Run) bool { return r.ID == *seen }); i >= 0 && i+1 < len(runs) {
			t.from = runs[i+1].ID
		}
	}
	if err := c.past(&t, row, runs); err != nil {
		return err
	}
	t.events = func(ctx context.Context) iter.Seq2[cairn.Event, error] { return c.h.eng.Events(ctx, row.ID, t.after) }
	return c.follow(&t, row.Log())
}

// follow streams what a reader of a turn reads on a log.
func (c *request) follow(t *turnReader, name string) error {
	log, leave := c.h.frames.Join(name)
	defer leave()
	return c.chatStream(func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { t.read(ctx, log, yield) }
	})
}

// whole streams the turn of a run from its beginning.
func (c *request) whole(run *engine.Run, v aisdk.Version) error {
	row, err := c.h.eng.Session(c.ctx, run.SessionID())
	if err != nil {
		return err
	}
	if run.Turn() == 0 {
		return c.turn(row, queued(run.ID(), run.Cursor().Sequence), v, nil)
	}
	runs, err := c.turnOf(row.ID, run.ID())
	if err != nil {
		return err
	}
	return c.turn(row, runs, v, nil)
}

// begun streams the turn that has begun with a run, as it happens. It needs nothing of the store but the events.
func (c *request) begun(run *engine.Run, v aisdk.Version) error {
	session := c.bareID(run.SessionID())
	t := turnReader{events: run.SessionEvents, session: session, bare: c.tenant() != "", first: run.ID(), enc: aisdk.New(v, session, aisdk.TurnID(run.ID()))}
	t.enc.Address = c.addresses()
	return c.follow(&t, ids.Log(run.SessionID(), run.Cursor().Incarnation))
}

// past reads the existing events of a turn. Events that were trimmed from the log are rebuilt from the transcript.
func (c *request) past(t *turnReader, row *cairn.Session, runs []cairn.Run) error {
	for n := range runs {
		t.after = cairn.Cursor{Incarnation: row.Incarnation, Sequence: runs[n].StartSequence}
		t.past, t.began = nil, n > 0
		err := t.history(c.ctx)
		if err == nil && n > 0 {
			t.past, err = c.trimmed(row, runs[:n], runs[n].FirstMessage, t.past)
		}
		if !errors.Is(err, cairn.ErrTrimmed) {
			return err
		}
	}
	var err error
	t.past, err = c.trimmed(row, runs, row.MessageCount, []cairn.Event{aisdk.End(&runs[len(runs)-1])})
	return err
}

// trimmed returns the events of runs as rebuilt from the transcript, up to the message before an index, followed by
// rest.
func (c *request) trimmed(row *cairn.Session, runs []cairn.Run, to int, rest []cairn.Event) ([]cairn.Event, error) {
	var list []cairn.Message
	for m, err := range c.messages(row, runs[0].FirstMessage, to) {
		if err != nil {
			return nil, err
		}
		list = append(list, *m)
	}
	decided, err := c.decidedCalls(row)
	if err != nil {
		return nil, err
	}
	return append(aisdk.Events(row.ID, runs, runs[0].FirstMessage, list, decided), rest...), nil
}

// turnReader reads a turn from the log.
type turnReader struct {
	eng     *engine.Engine // for history
	id      string         // of the session
	session string         // the id as the client knows it
	bare    bool           // the client knows names of the session's tenant
	enc     *aisdk.Encoder
	first   string // first run of the turn
	from    string // run that the stream begins with; empty for the first

	began bool          // whether the turn's first event was read, or trimmed
	past  []cairn.Event // events that existed when the client joined
	after cairn.Cursor  // cursor of the last event that was read
	// events yields those behind the past.
	events func(context.Context) iter.Seq2[cairn.Event, error]
}

// replayed is how many past events are read at a time.
const replayed = 1000

// history reads the existing events.
func (t *turnReader) history(ctx context.Context) error {
	for {
		list, err := t.eng.History(ctx, t.id, t.after, replayed)
		if err != nil {
			return err
		}
		for i := range list {
			if t.mine(&list[i]) {
				t.past = append(t.past, list[i])
			}
		}
		if len(list) > 0 {
			t.after = list[len(list)-1].Cursor()
		}
		if len(list) < replayed {
			return nil
		}
	}
}

// mine reports whether an event belongs to the turn, or accompanies it.
func (t *turnReader) mine(ev *cairn.Event) bool {
	t.began = t.began || ev.RunID == t.first
	return t.began
}

// read yields the frames of a turn: its past as a replay, then each event as it is published. Readers that joined at
// different places may be shown the same event differently, so they share frames by what they are shown.
func (t *turnReader) read(ctx context.Context, log *shared.Log, yield func([]byte, error) bool) {
	past := t.past
	t.past = nil
	if t.bare {
		for i := range past {
			bareEvent(&past[i])
		}
	}
	if t.from != "" {
		past = t.skip(past)
	}
	if frames := t.enc.Replay(past); len(frames) > 0 && !yield(frames, nil) || t.enc.Done() {
		return
	}
	var ev cairn.Event // one for all: it is large, and would be allocated for each
	for next, err := range t.events(ctx) {
		if err != nil {
			yield(nil, err)
			return
		}
		ev = next
		if !t.mine(&ev) {
			continue
		}
		if t.bare {
			bareEvent(&ev)
		}
		if t.enc.Taken(&ev) {
			yield(nil, sse.ErrCut)
			return
		}
		if chunks := t.enc.Chunks(&ev); len(chunks) > 0 && !yield(log.Frame(&ev, chunks, chunkFrames)) || t.enc.Done() {
			return
		}
	}
}

func chunkFrames(_ *cairn.Event, chunks []any) ([]byte, error) { return aisdk.Frames(chunks), nil }

// skip returns the events from the run on that the stream begins with. It passes earlier ones to the encoder as
// already shown.
func (t *turnReader) skip(past []cairn.Event) []cairn.Event {
	n := len(past)
	for i := range past {
		if past[i].SessionID == t.session && past[i].RunID == t.from {
			n = i
			break
		}
	}
	t.enc.Skip(past[:n])
	return past[n:]
}

// chatStream responds with a stream for a chat client.
func (c *request) chatStream(frames func(context.Context) iter.Seq2[[]byte, error]) error {
	c.w.Header().Set(aisdk.Header, "v1")
	return c.stream(frames)
}
