package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

func streamOf(c *request, in *idIn) (*client.Stream, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	s, err := c.h.eng.Stream(c.ctx, in.ID)
	return (*client.Stream)(&s), err
}

type emitIn struct {
	ID string `path:"id" json:"-"`
	wire.Emit
}

// emit publishes a custom event. Readers take it for one of a tool, so only administrators may.
func emit(c *request, in *emitIn) (none, error) {
	if _, err := c.open(in.ID, ActionChange); err != nil {
		return none{}, err
	}
	if !c.principal.Is(RoleAdmin) {
		return none{}, cairn.Invalid("name", "only administrators may publish events")
	}
	var data any
	if len(in.Data) > 0 {
		data = in.Data
	}
	return none{}, c.h.eng.Emit(c.ctx, in.ID, in.Name, data)
}

type eventsIn struct {
	SessionID string `query:"session_id"`
	// RunID restricts the stream to one run of the session with the sub-agents it consults. The stream then ends
	// with that run. Without it the stream has every turn, by any process, and ends when the session is deleted.
	RunID string `query:"run_id"`
	// After is the cursor behind which the stream begins; empty means the beginning. A Last-Event-ID header
	// overrides it.
	After string `query:"after"`
	// Types restricts the stream to events of these types.
	Types []string `query:"type"`
}

// events streams events. The stream is a function of the log: whichever process serves it, live or replayed, the
// whole equals any first part of it followed by what comes after that part's cursor.
func events(c *request, in *eventsIn) error {
	row, err := c.open(in.SessionID, ActionRead)
	if err != nil {
		return err
	}
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		in.After = last
	}
	after, err := cairn.ParseCursor(in.After)
	if err != nil {
		return err
	}
	// Report trimmed events before the stream begins.
	if _, err := c.h.eng.History(c.ctx, row.ID, after, 1); err != nil {
		return err
	}
	source := func(ctx context.Context) iter.Seq2[cairn.Event, error] { return c.h.eng.Events(ctx, row.ID, after) }
	if in.RunID != "" {
		run, err := c.h.eng.Run(c.ctx, in.SessionID, in.RunID)
		if err != nil {
			return err
		}
		source = func(ctx context.Context) iter.Seq2[cairn.Event, error] { return behind(run.Events(ctx), after) }
		if over, err := c.over(run, source); over || err != nil {
			return err
		}
	}
	log, leave := c.h.frames.Join(row.Log())
	defer leave()
	public, whole := []any{shownEvent{bare: c.tenant() != ""}}, []any{shownEvent{whole: true, bare: c.tenant() != ""}}
	return c.stream(func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			var ev cairn.Event // one for all: it is large, and would be allocated for each
			for next, err := range source(ctx) {
				if err != nil {
					yield(nil, err)
					return
				}
				ev = next
				if len(in.Types) > 0 && !slices.Contains(in.Types, string(ev.Type)) {
					continue
				}
				as := public
				if (ev.Error != nil || ev.Type == cairn.EventRunEnd && ev.Name != "") && c.wholeErrors() {
					as = whole
				}
				if !yield(log.Frame(&ev, as, frame)) {
					return
				}
			}
		}
	})
}

// over responds with 204, at which an EventSource stops reconnecting, if a run has ended and the client has all of
// its events.
func (c *request) over(run *engine.Run, rest func(context.Context) iter.Seq2[cairn.Event, error]) (bool, error) {
	record, err := run.Record(c.ctx)
	if err != nil || record.Status == cairn.RunRunning {
		return false, err
	}
	for _, err := range rest(c.ctx) {
		return false, err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return true, nil
}

// behind drops the events up to and including a cursor.
func behind(list iter.Seq2[cairn.Event, error], after cairn.Cursor) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		for ev, err := range list {
			if (err != nil || ev.Sequence > after.Sequence) && !yield(ev, err) {
				return
			}
		}
	}
}

// shownEvent is how a client is shown an event: what end users may read, or with its whole error and the name of who
// stopped a run, and with names of its tenant instead of ids.
type shownEvent struct{ whole, bare bool }

// frame encodes an event as a client is shown it.
func frame(ev *cairn.Event, shown []any) ([]byte, error) {
	public, as := ev.Public(), shown[0].(shownEvent)
	if as.whole {
		public.Error = ev.Error
		if ev.Type == cairn.EventRunEnd {
			public.Name = ev.Name
		}
	}
	if as.bare {
		bareEvent(&public)
	}
	public.Status = wire.RunStatus(ev.Status, ev.Reason)
	data, err := json.Marshal(&public)
	if err != nil {
		return nil, err
	}
	cursor := ev.Cursor().String()
	const around = len("id: \nevent: \ndata: \n\n")
	return sse.Append(make([]byte, 0, around+len(cursor)+len(ev.Type)+len(data)), cursor, string(ev.Type), data), nil
}

// stream responds with a stream of frames. It ends after the last one, with the client, or when the server is
// drained.
func (c *request) stream(frames func(context.Context) iter.Seq2[[]byte, error]) (err error) {
	c.leavePlace()
	if c.r.Method == http.MethodHead { // HEAD would wait for frames that it does not get
		frames = func(context.Context) iter.Seq2[[]byte, error] { return func(func([]byte, error) bool) {} }
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.h.ctx, cancel)()
	seen, route := c.h.opts.Observer, c.r.Pattern
	seen.StreamOpened(route)
	defer func() { seen.StreamClosed(route, errors.Is(err, sse.ErrCut)) }()
	counted := func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for data, err := range frames(ctx) {
				if err == nil {
					seen.StreamEvent(route)
				}
				if !yield(data, err) {
					return
				}
			}
		}
	}
	return sse.Write(ctx, c.w, c.r, counted, sse.Options{KeepAlive: c.h.opts.KeepAlive, WriteTimeout: c.h.opts.WriteTimeout})
}
