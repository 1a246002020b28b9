package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
)

// noKey is the list of the one key of a script, which is filled in later.
var noKey = []any{nil}

// boxed returns the events that the commit leaves in the row's outbox.
func (w *write) boxed() []cairn.Event {
	if row := w.d.Row; row.Outbox != nil && row.Outbox.Version == row.Version {
		return row.Outbox.Events
	}
	return nil
}

// events adds the arguments for an append of the commit's events: how many there are, their batch, whether some get the
// time of the commit, how long they are kept, the channel to announce them on, and as from whom.
func (w *write) events(cmd *command) error {
	list := w.d.Finished()
	cmd.number(int64(len(list)))
	batch, err := backend.EncodeEvents(list)
	if err != nil {
		return err
	}
	cmd.add(append(cmd.data, batch...))
	if undated(list) {
		cmd.text("+")
	} else {
		cmd.text("")
	}
	cmd.number(w.db.opts.EventRetention.Milliseconds())
	cmd.words(w.db.eventChannel(w.d.Row.Log()), w.log.listener.origin)
	return nil
}

// written caches and returns the row that a script has written, and publishes the events to this process's followers.
// The script's answer is the time and, after a space each, the end of the lease, the log's last sequence and the error of
// the announcement.
func (w *write) written(ctx context.Context, sc *script, answer string) (*cairn.Session, error) {
	d := w.d
	stamp, rest, _ := strings.Cut(answer, " ")
	end, rest, _ := strings.Cut(rest, " ")
	sequence, failure, _ := strings.Cut(rest, " ")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return nil, unknownText(sc, answer)
	}
	if d.New {
		w.after.since = stamp
	}
	now := fromMicros(at)
	row := d.RowAt(now)
	if d.LeaseUntil.Kept || sc != scriptStep {
		till, err := strconv.ParseInt(end, 10, 64)
		if err != nil {
			return nil, unknownText(sc, answer)
		}
		row.Lease.Until = fromMicros(till)
	}
	date(w.boxed(), now)
	if len(d.Events) == 0 {
		w.db.remember(&w.after)
		return row, nil
	}
	last, err := strconv.ParseInt(sequence, 10, 64)
	if err != nil {
		return nil, unknownText(sc, answer)
	}
	d.Logged(last - int64(len(d.Events)))
	w.db.remember(&w.after)
	events := d.Finished()
	date(events, now)
	w.log.listener.hub.Append(row.Log(), last, events)
	w.log.listener.published(ctx, failure)
	return row, nil
}

// thereAlready wakes the followers of a session's log if a commit with events was applied before: its answer was lost.
func (w *write) thereAlready(row *cairn.Session) {
	if row != nil && len(w.c.Events) > 0 && !w.c.Outbox {
		w.log.listener.hub.Wake(row.Log())
	}
}
