package redisstore

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptAppend = keyed("append", "append events", grows)
	scriptFinish = keyed("append", "append events", frees) // for fences and ends of runs, which a full server takes
	scriptEvents = keyed("events", "read events", reads)
	scriptTrim   = keyed("trim", "trim the event log", frees)
	scriptDrop   = keyed("drop", "drop the event log", frees)
	scriptSwept  = keyed("swept", "note the sweep of an event log", frees)
)

// Log is the event log of a Store: a stream for each log, with an entry for each batch of events. It is safe for
// concurrent use.
type Log struct {
	db       *database
	listener *listener
	// Appends without a batch number get one, and run one at a time, because the client may send them twice.
	locks    nameLocks
	attempts atomic.Int64
}

// Self implements driver.Log.
func (l *Log) Self() driver.Log { return l }

// MaxEvent implements driver.Log.
func (l *Log) MaxEvent() int { return l.db.opts.MaxEvent }

// Append implements driver.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (last int64, err error) {
	if len(events) > 0 {
		return l.append(ctx, log, expect, driver.Writer{Session: "\n" + l.listener.origin}, events) // names no session
	}
	return backend.CheckLast(ctx, l, log, expect)
}

// AppendFenced implements driver.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (last int64, err error) {
	if len(events) == 0 {
		w.Batch = 0
	}
	return l.append(ctx, log, expect, w, events)
}

// append runs an append and publishes the events to this process's followers.
func (l *Log) append(ctx context.Context, log string, expect int64, w driver.Writer, events []cairn.Event) (int64, error) {
	for i := range events {
		if err := driver.CheckEvent(&events[i], l.db.opts.MaxEvent); err != nil {
			return 0, err
		}
	}
	if w.Batch == 0 && len(events) > 0 {
		release, err := l.locks.take(ctx, log)
		if err != nil {
			return 0, err
		}
		defer release()
		w.ID, w.Batch = l.listener.origin, l.attempts.Add(1)
	}
	batch, err := backend.EncodeEvents(events)
	if err != nil {
		return 0, err
	}
	sc := scriptAppend
	if len(events) == 0 || slices.ContainsFunc(events, func(ev cairn.Event) bool { return ev.Type == cairn.EventRunEnd }) {
		sc = scriptFinish
	}
	r, err := l.db.run(ctx, sc, l.db.bucketOfLog(log), log, expect, w.Session, w.Token, w.ID, w.Batch,
		l.db.opts.EventRetention.Milliseconds(), l.db.eventChannel(log), l.listener.origin, len(events), batch)
	if err != nil {
		l.listener.hub.Wake(log) // it is unknown whether the events were appended
		return 0, err
	}
	if r.word() == "dropped" {
		return 0, driver.Dropped(log)
	}
	last, err := strconv.ParseInt(r.text(1), 10, 64)
	switch {
	case err != nil:
		return 0, cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid stored sequence %q", log, r.text(1))
	case r.word() == "fenced":
		return 0, driver.Fenced(log, w, last)
	case r.word() == "stale":
		return 0, driver.LogChanged(log, expect, last)
	case r.word() == "there":
		l.listener.hub.Wake(log)
	default:
		l.listener.hub.Append(log, last, events)
		l.listener.published(ctx, r.text(2))
	}
	return last, nil
}

// events reads the batches that have up to limit events of a log from a sequence on, and the log's first and last
// sequence.
func (l *Log) events(ctx context.Context, log string, from int64, limit int) (first, last int64, entries []any, err error) {
	r, err := l.db.run(ctx, scriptEvents, l.db.bucketOfLog(log), log, from, limit)
	if err != nil {
		return 0, 0, nil, err
	}
	if r.word() == "dropped" {
		return 0, 0, nil, driver.Dropped(log)
	}
	first, err1 := strconv.ParseInt(r.text(1), 10, 64)
	last, err2 := strconv.ParseInt(r.text(2), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0, nil, cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid stored sequences %q and %q", log, r.text(1), r.text(2))
	}
	return first, last, r.list(3), nil
}

// Read implements driver.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	after = max(after, 0)
	first, last, entries, err := l.events(ctx, log, after+1, limit)
	switch {
	case err != nil:
		return nil, err
	case after < last && after+1 < first:
		return nil, driver.Trimmed(log, after, first)
	case len(entries) == 0:
		return nil, nil
	}
	var list []cairn.Event
	for _, entry := range entries {
		if list, err = readBatch(list, log, entry, after, limit); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readBatch appends the events of a stream's entry that follow a sequence, until the list has limit events.
func readBatch(list []cairn.Event, log string, entry any, after int64, limit int) ([]cairn.Event, error) {
	pair, _ := entry.([]any)
	id := reply(pair).text(0)
	end, size, _ := strings.Cut(id, "-")
	last, err1 := strconv.ParseInt(end, 10, 64)
	count, err2 := strconv.ParseInt(size, 10, 64)
	if err1 != nil || err2 != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid stored sequence %q", log, id)
	}
	data := []byte(reply(reply(pair).list(1)).text(1))
	switch n, err := backend.CountEvents(data); {
	case err != nil:
		return nil, err
	case int64(n) != count:
		return nil, cairn.Errorf(cairn.ErrCorrupt, "log %q: the batch up to %d has %d events, not %d", log, last, n, count)
	}
	before := len(list)
	list, err := backend.DecodeEvents(list, data, last-count+1, after, limit)
	if at := reply(reply(pair).list(1)).text(3); err == nil && at != "" {
		stamp, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "log %q: invalid stored time %q of the batch up to %d", log, at, last)
		}
		date(list[before:], fromMicros(stamp))
	}
	return list, err
}

// Follow implements driver.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		l.listener.join(log)
		defer l.listener.leave(log)
		l.listener.hub.Follow(ctx, log, after, l.Read)(yield)
	}
}

// Bounds implements driver.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	first, last, _, err = l.events(ctx, log, 1, 0)
	return first, last, err
}

// Trim implements driver.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	_, err := l.db.run(ctx, scriptTrim, l.db.bucketOfLog(log), log, before)
	return err
}

// Unswept implements driver.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[string], error) {
	found, err := l.db.overdues(ctx, "logs", q, age, "l", "last")
	page := driver.Page[string]{Next: found.Next}
	for _, o := range found.Items {
		page.Items = append(page.Items, o.name)
	}
	return page, err
}

// Swept implements driver.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	_, err := l.db.run(ctx, scriptSwept, l.db.bucketOfLog(log), log, last, next.Microseconds())
	return err
}

// Drop implements driver.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	r, err := l.db.run(ctx, scriptDrop, l.db.bucketOfLog(log), log, l.db.eventChannel(log), driver.DroppedFor.Milliseconds())
	if err == nil {
		l.listener.hub.Drop(log)
		l.listener.published(ctx, r.text(1))
	}
	return err
}
