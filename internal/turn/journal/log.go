package journal

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// Log is the event log as one process writes it. Create one with NewLog.
type Log struct {
	driver.Log
	*settings.Options
	// Own reports whether the log is the store's own, to which commits append their events.
	Own bool

	// writer, with a number from writers, names each emitter to the log. Only this Log may use such names, so writer is
	// random.
	writer  string
	writers atomic.Int64
	idle    writers
}

// NewLog returns a log of an engine with some options. own says that it is the log of the engine's store.
func NewLog(l driver.Log, own bool, o *settings.Options) *Log {
	return &Log{Log: l, Options: o, Own: own, writer: ids.New("writer") + "-"}
}

// newWriter returns a writer name that is unique across all logs.
func (g *Log) newWriter() string {
	var room [64]byte
	return string(strconv.AppendInt(append(room[:0], g.writer...), g.writers.Add(1), 36))
}

// limit returns how many bytes of text or JSON an event can carry in addition to its ids, even if every byte is
// escaped.
func (g *Log) limit() int { return g.MaxEvent()/6 - 640 }

// AppendAs appends events of a session to its log. It fails if the lease has been lost and the log implements
// [driver.Fencer].
func (g *Log) AppendAs(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	if f, ok := driver.LogAs[driver.Fencer](g.Log); ok {
		return f.AppendFenced(ctx, log, expect, w, events...)
	}
	if len(events) == 0 {
		return 0, nil
	}
	return g.Append(ctx, log, expect, events...)
}

// eventIDs are the fields that all events of a run share.
type eventIDs struct{ session, run, agent string }

// put sets them. The events of a queued turn keep their run id: it has a run of its own.
func (i *eventIDs) put(ev *cairn.Event) {
	ev.SessionID = i.session
	if ev.Origin == "" || ev.Agent == "" {
		ev.Agent = i.agent
	}
	if ev.Type != cairn.EventDequeued && ev.Type != cairn.EventQueued && ev.Type != cairn.EventRewound {
		ev.RunID = i.run
	}
}

// Marks completes events of a session for a commit that carries them: with the ids that they share, and cut to size. They
// have no time, which is the commit's. An event that the log cannot keep is left out. runID is empty for events of no
// run. It changes the list.
func (g *Log) Marks(id, agent, runID string, events []cairn.Event) []cairn.Event {
	return g.marks(&eventIDs{id, runID, agent}, events)
}

func (g *Log) marks(ids *eventIDs, events []cairn.Event) []cairn.Event {
	limit := g.limit()
	for i := 0; i < len(events); i++ {
		ids.put(&events[i])
		if mayNotFit(&events[i], limit) {
			parts := fit(events[i], limit)
			events = slices.Replace(events, i, i+1, parts...)
			i += len(parts) - 1
		}
	}
	return g.Storable(events)
}

// room is what events grow by once the log has set their sequence, version and time.
const room = 128

// Storable returns a list without the events that the log cannot keep, which it logs. A gap in the log is better than a
// run that cannot continue. It changes the list.
func (g *Log) Storable(list []cairn.Event) []cairn.Event {
	return slices.DeleteFunc(list, func(ev cairn.Event) bool {
		err := driver.CheckEvent(&ev, g.MaxEvent()-room)
		if err != nil {
			g.Logger.Error("event dropped: rejected by the log", "session", ev.SessionID, "run", ev.RunID, "type", ev.Type, "error", err)
		}
		return err != nil
	})
}

// EachSince calls fn for the events of a log after a sequence, and returns the log's last sequence. It skips trimmed
// events.
func (g *Log) EachSince(ctx context.Context, log string, after int64, fn func(*cairn.Event)) (int64, error) {
	const page = 1000
	for {
		batch, err := g.Read(ctx, log, after, page)
		if errors.Is(err, cairn.ErrTrimmed) {
			first, _, err := g.Bounds(ctx, log)
			if err != nil {
				return 0, err
			}
			after = first - 1
			continue
		}
		if err != nil {
			return after, err
		}
		for i := range batch {
			fn(&batch[i])
			after = batch[i].Sequence
		}
		if len(batch) < page {
			return after, nil
		}
	}
}

// writers holds the writer names of each session's log, with the numbers of their last batches, that no effect uses at
// the moment. A log remembers every name, so the effects of one run share a few.
type writers struct {
	mu sync.Mutex
	by map[string][]driver.Writer // by session
}

// take returns an idle writer of the same session and token, or else fresh.
func (w *writers) take(fresh driver.Writer) driver.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.by[fresh.Session]
	if len(list) == 0 || list[0].Token != fresh.Token {
		delete(w.by, fresh.Session)
		return fresh
	}
	w.by[fresh.Session] = list[1:]
	return list[0]
}

// put makes a writer available again. It keeps writers of at most limit sessions.
func (w *writers) put(used driver.Writer, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, there := w.by[used.Session]
	if w.by == nil || !there && len(w.by) >= limit { // forgetting costs each log one more name
		w.by = map[string][]driver.Writer{}
	}
	if len(list) > 0 && list[0].Token != used.Token {
		list = nil
	}
	w.by[used.Session] = append(list, used)
}
