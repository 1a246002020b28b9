package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var scriptStep = alone("step", "commit", grows)

// simple reports whether step.lua can write the delta: a checkpoint with only what nearly every step has.
func (w *write) simple() bool {
	after := &w.after
	d, cp := w.d, w.d.Checkpoint
	return !d.New && !d.Lapsed && cp != nil && cp.StepID != "" && cp.ID != "" && d.Cut == nil && !d.Context &&
		d.StartRun == nil && d.EndRun == nil && len(d.Calls) == 0 && d.Enqueue == nil && len(d.Dequeue) == 0 &&
		len(d.Cache) == 0 && len(d.CacheDrop) == 0 && !d.NextDeadline.Open &&
		(d.LeaseUntil.Kept || after.kind != string(store.DueDeadline)) && after.kind == w.at.kind &&
		(after.kind != string(store.DueDeadline) || d.NextDeadline.At.Equal(w.at.session.NextDeadline)) &&
		!slices.ContainsFunc(w.c.Messages, func(m cairn.Message) bool { return !m.CreatedAt.IsZero() })
}

// step writes a simple delta. If the server has another row, done is false and nothing was written.
func (w *write) step(ctx context.Context) (row *cairn.Session, done bool, err error) {
	d := w.d
	if w.after.keys == nil {
		bucket, _ := w.db.route(w.id)
		w.after.keys = newStepKeys(w.db.buckets[bucket], w.id)
	}
	cmd := newCommand()
	defer cmd.free()
	if err := w.fill(cmd); err != nil {
		return nil, false, err
	}
	keys := w.after.keys
	names := keys.names[:stepKeyState]
	if d.State != nil {
		names = keys.names[:]
	}
	list := cmd.finish(scriptStep, names...)
	if !d.DropStaged {
		list[keyOfCommand+stepKeyStaged] = keys.nothing
	}
	answer, err := w.db.answer(ctx, scriptStep, list)
	if err != nil {
		return nil, false, err
	}
	text := plain(answer)
	if text == "" {
		return nil, false, nil
	}
	stamp, end, _ := strings.Cut(text, " ")
	now, err := strconv.ParseInt(stamp, 10, 64)
	row = d.RowAt(fromMicros(now))
	if err == nil && d.LeaseUntil.Kept {
		now, err = strconv.ParseInt(end, 10, 64)
		row.Lease.Until = fromMicros(now)
	}
	if err != nil {
		return nil, false, unknownText(scriptStep, text)
	}
	w.db.remember(&w.after)
	return row, true, nil
}

// fill adds the arguments of step.lua.
func (w *write) fill(cmd *command) error {
	d, cp := w.d, w.d.Checkpoint
	cmd.add(w.at.version(cmd.data))
	cmd.add(w.after.version(cmd.data))
	if !d.LeaseUntil.Kept {
		cmd.add(strconv.AppendInt(append(cmd.data, '+'), d.LeaseUntil.In.Microseconds(), 10))
	} else {
		cmd.text("")
	}
	cmd.add(w.after.head(cmd.data, 0))
	cmd.text(cp.ID)
	cmd.add(appendCheckpoint(cmd.data, cp, &w.after))
	cmd.two("s", cp.StepID)
	for i := range d.Messages {
		data, err := appendMessage(cmd.data, &d.Messages[i])
		if err != nil {
			return err
		}
		cmd.add(data)
	}
	if d.State != nil {
		cmd.add(append(cmd.data, d.State.Data...))
	}
	return nil
}
