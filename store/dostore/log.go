package dostore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// The rows of a log are those of the owner [ofLog], with these keys:
//
//	last            the [logState]
//	batch/SEQUENCE  a batch of events, by the sequence of its first one
const logKey = "last"

// Log is the event log of a Store, in the objects of its trees. It is safe for concurrent use.
type Log struct {
	db  *database
	hub tail.Hub

	mu    sync.Mutex
	known map[string]*logState
	pins  map[string]int // number of followers, by log
}

// logState is what each append changes of a log.
type logState struct {
	First   int64 `json:"first"`
	Last    int64 `json:"last"`
	Dropped bool  `json:"dropped,omitempty"`
	// SweepAt is when the log is due for a sweep; zero before its first event.
	SweepAt time.Time `json:"sweep_at,omitzero"`
	// Fences has the highest token that the log has seen of each session.
	Fences map[string]logFence `json:"fences,omitempty"`

	version int64 // of its row
}

// logFence is the highest token of a session, with the last batch of each of its writers.
type logFence struct {
	Token   int64               `json:"token"`
	Batches map[string]logBatch `json:"batches,omitempty"`
}

// logBatch is the number of a writer's last batch, and the sequence at which it ended.
type logBatch struct {
	Number int64 `json:"number"`
	Last   int64 `json:"last"`
}

func (s *logState) copy() *logState {
	c := *s
	c.Fences = maps.Clone(s.Fences)
	return &c
}

// fence records a writer's token and, unless it is 0, the number of a batch that ends at the log's last sequence.
func (s *logState) fence(w driver.Writer, batch int64) {
	f := s.Fences[w.Session]
	if w.Token > f.Token {
		f = logFence{Token: w.Token}
	}
	if batch > 0 {
		f.Batches = maps.Clone(f.Batches)
		if f.Batches == nil {
			f.Batches = map[string]logBatch{}
		}
		f.Batches[w.ID] = logBatch{batch, s.Last}
	}
	if s.Fences == nil {
		s.Fences = map[string]logFence{}
	}
	s.Fences[w.Session] = f
}

// add adds events to a write, and the state after them, on the condition that the log's row has a version.
func (s *logState) add(r *rows, log string, version int64, events []cairn.Event) {
	owner := ofLog(log)
	r.expect(owner, logKey, version)
	if version == 0 { // of an import that was given up
		r.Clear = append(r.Clear, [3]string{owner, "batch/", after("batch")})
	}
	if len(events) > 0 {
		text, err := encodeBatch(events)
		if err != nil && r.err == nil {
			r.err = err
		}
		r.text(owner, numbered("batch", s.Last+1), text)
		s.Last += int64(len(events))
		if s.SweepAt.IsZero() || s.SweepAt.After(r.at) {
			s.due(r, log, r.at)
		}
		r.Wake = append(r.Wake, owner)
	}
	r.put(owner, logKey, "log", s)
}

// due makes the log due for a sweep at a time, here and in the directory.
func (s *logState) due(r *rows, log string, at time.Time) {
	s.SweepAt = at
	text := ""
	r.Share = append(r.Share, shared{Source: ofLog(log), Value: &text, Lists: [][2]string{{unswept, timed(at, log)}}})
}

func newLog(db *database) *Log {
	return &Log{db: db, known: map[string]*logState{}, pins: map[string]int{}}
}

// Self implements driver.Log.
func (l *Log) Self() driver.Log { return l }

// MaxEvent implements driver.Log.
func (l *Log) MaxEvent() int { return l.db.opts.MaxEvent }

func (l *Log) link(log string) *link { return l.db.tree(rootOfLog(log)) }

// mostLogs bounds the number of logs whose state is cached.
const mostLogs = 4096

// state returns the state of a log as this process knows it, which it reads if it knows nothing.
func (l *Log) state(ctx context.Context, log string) (*logState, error) {
	l.mu.Lock()
	s := l.known[log]
	l.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, _, err := l.look(ctx, log)
	return s, err
}

// look reads the state of a log, and more of its rows: the answer's parts for them begin at 1.
func (l *Log) look(ctx context.Context, log string, more ...ask) (*logState, *answer, error) {
	a, err := l.link(log).call(ctx, &request{Op: "read", Ask: append([]ask{get(ofLog(log), logKey)}, more...)})
	if err != nil {
		return nil, nil, err
	}
	r, err := a.one(0)
	if err != nil {
		return nil, nil, err
	}
	s := &logState{First: 1}
	if r != nil {
		if s, err = rowOf[logState]("log", r); err != nil {
			return nil, nil, err
		}
		s.version = r.version
	}
	l.remember(log, s)
	return s, a, nil
}

func (l *Log) remember(log string, s *logState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= mostLogs {
		clear(l.known)
	}
	if old := l.known[log]; old == nil || old.version <= s.version {
		l.known[log] = s
	}
}

func (l *Log) forget(log string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, log)
}

// unknown notes that it is unknown whether the events of a delta were appended.
func (l *Log) unknown(d *plan.Delta) {
	if len(d.Events) > 0 {
		l.forget(d.Row.Log())
		l.hub.Wake(d.Row.Log())
	}
}

// appended notes the state of a log after events that this process has appended.
func (l *Log) appended(log string, s *logState, events []cairn.Event) {
	l.remember(log, s)
	l.hub.Append(log, s.Last, events)
}

// Append implements driver.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	if len(events) == 0 {
		return backend.CheckLast(ctx, l, log, expect)
	}
	return l.append(ctx, log, expect, nil, events)
}

// AppendFenced implements driver.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	return l.append(ctx, log, expect, &w, events)
}

// append adds events to a log. Without a writer the append is not fenced.
func (l *Log) append(ctx context.Context, log string, expect int64, w *driver.Writer, events []cairn.Event) (int64, error) {
	for i := range events {
		if err := driver.CheckEvent(&events[i], l.db.opts.MaxEvent); err != nil {
			return 0, err
		}
	}
	s, err := l.state(ctx, log)
	for certain := false; ; {
		if err != nil {
			return 0, err
		}
		last, there, err := s.admits(log, expect, w, len(events) > 0)
		if (err != nil || there) && certain {
			return last, err
		}
		if err != nil || there { // by a state that may be out of date
			certain = true
			if s, _, err = l.look(ctx, log); err != nil {
				return 0, err
			}
			continue
		}
		next := s.copy()
		refused, version, err := l.link(log).write(ctx, func(at time.Time) (*request, error) {
			next = s.copy()
			r := &rows{at: at}
			next.add(r, log, s.version, events)
			if w != nil {
				batch := w.Batch
				if len(events) == 0 {
					batch = 0
				}
				next.fence(*w, batch)
				r.Put = r.Put[:len(r.Put)-1]
				r.put(ofLog(log), logKey, "log", next)
			}
			return &r.request, r.err
		})
		if err != nil {
			l.forget(log)
			l.hub.Wake(log)
			return 0, err
		}
		if refused == nil {
			next.version = version
			l.appended(log, next, events)
			return next.Last, nil
		}
		l.forget(log)
		certain = true
		s, _, err = l.look(ctx, log)
		if err != nil {
			return 0, err
		}
	}
}

// admits returns the error of an append to a log in this state, or that the log has the batch already, with the
// sequence at which the writer's latest one ended.
func (s *logState) admits(log string, expect int64, w *driver.Writer, numbered bool) (last int64, there bool, err error) {
	if s.Dropped {
		return 0, false, driver.Dropped(log)
	}
	if w != nil {
		f := s.Fences[w.Session]
		if w.Token < f.Token {
			return 0, false, driver.Fenced(log, *w, f.Token)
		}
		if b := f.Batches[w.ID]; numbered && w.Batch > 0 && w.Token == f.Token && w.Batch <= b.Number {
			return b.Last, true, nil
		}
	}
	if expect != driver.AnySequence && expect != s.Last {
		return 0, false, driver.LogChanged(log, expect, s.Last)
	}
	return 0, false, nil
}

// Read implements driver.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	after = max(after, 0)
	owner := ofLog(log)
	begun := scan(owner, "batch/", numbered("batch", after+2)) // the batch with the event after the sequence
	begun.Newest, begun.Limit = true, 1
	later := every(owner, "batch")
	later.Of[1], later.Limit = numbered("batch", after+2), limit
	s, a, err := l.look(ctx, log, begun, later)
	switch {
	case err != nil:
		return nil, err
	case s.Dropped:
		return nil, driver.Dropped(log)
	case after >= s.Last:
		return nil, nil
	case after+1 < s.First:
		return nil, driver.Trimmed(log, after, s.First)
	}
	var list []cairn.Event
	for i := 1; i <= 2; i++ {
		batches, err := a.all(i)
		if err != nil {
			return nil, err
		}
		for j := range batches {
			if list, err = readBatch(list, log, &batches[j], after, limit); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// readBatch appends the events of a batch that follow a sequence, until the list has limit events.
func readBatch(list []cairn.Event, log string, r *row, after int64, limit int) ([]cairn.Event, error) {
	first, err := numberOf(r.key)
	var raw []byte
	if err == nil {
		raw, err = base64.StdEncoding.DecodeString(r.value)
	}
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid batch %q", log, r.key)
	}
	return backend.DecodeEvents(list, raw, first, after, limit)
}

// Bounds implements driver.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	s, _, err := l.look(ctx, log)
	switch {
	case err != nil:
		return 0, 0, err
	case s.Dropped:
		return 0, 0, driver.Dropped(log)
	}
	return s.First, s.Last, nil
}

// change changes the state of a log that exists and was not dropped, by a function that may be called several times. The
// function returns false if there is nothing to write.
func (l *Log) change(ctx context.Context, log string, more []ask, do func(s *logState, a *answer, r *rows) (bool, error)) error {
	for {
		s, a, err := l.look(ctx, log, more...)
		if err != nil {
			return err
		}
		idle := false
		refused, _, err := l.link(log).write(ctx, func(at time.Time) (*request, error) {
			next, r := s.copy(), &rows{owner: ofLog(log), at: at}
			write, err := do(next, a, r)
			if idle = !write; err != nil || idle {
				return nil, cmp.Or(err, errMoved)
			}
			r.expect(r.owner, logKey, s.version)
			r.put(r.owner, logKey, "log", next)
			return &r.request, r.err
		})
		if idle && errors.Is(err, errMoved) {
			return nil
		}
		l.forget(log)
		if err != nil || refused == nil {
			return err
		}
	}
}

// Trim implements driver.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	begun := scan(ofLog(log), "batch/", numbered("batch", max(before, 0)+1)) // the batch with the event at before
	begun.Newest, begun.Limit = true, 1
	return l.change(ctx, log, []ask{begun}, func(s *logState, a *answer, r *rows) (bool, error) {
		if s.Dropped || before <= s.First {
			return false, nil
		}
		kept := after("batch")
		if before <= s.Last {
			list, err := a.all(1)
			if err != nil || len(list) == 0 {
				return false, err
			}
			kept = list[0].key
		}
		s.First = min(before, s.Last+1)
		r.Clear = append(r.Clear, [3]string{r.owner, "batch/", kept})
		return true, nil
	})
}

// Drop implements driver.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	err := l.change(ctx, log, nil, func(s *logState, _ *answer, r *rows) (bool, error) {
		*s = logState{Dropped: true}
		r.clear("batch", "batch/")
		r.Share = []shared{{Source: r.owner}}
		r.Wake = []string{r.owner}
		return true, nil
	})
	if err == nil {
		l.hub.Drop(log)
	}
	return err
}

// rootOfLog returns the root in the name of a log.
func rootOfLog(log string) string {
	if i := strings.LastIndexByte(log, '@'); i > 0 {
		return log[:i]
	}
	return log
}

// encodeBatch returns a batch of events as it is stored.
func encodeBatch(events []cairn.Event) (string, error) {
	raw, err := backend.EncodeEvents(events)
	return base64.StdEncoding.EncodeToString(raw), err
}
