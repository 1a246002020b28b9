package redisstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var scriptStep = alone("step", "commit", grows)

// simple reports whether step.lua can write the delta: a checkpoint with only what nearly every step has.
func (w *write) simple() bool {
	after := &w.after
	d, cp := w.d, w.d.Checkpoint
	return !d.New && !d.Lapsed && !d.Fence && !d.Beside && !undated(w.boxed()) && cp != nil && cp.StepID != "" && cp.ID != "" && d.Cut == nil && !d.Context &&
		d.StartRun == nil && d.EndRun == nil && len(d.Calls) == 0 && d.Enqueue == nil && len(d.Dequeue) == 0 &&
		len(d.Cache) == 0 && len(d.CacheDrop) == 0 &&
		(d.LeaseUntil.Kept || after.kind != string(driver.DueDeadline)) && after.kind == w.at.kind &&
		(after.kind != string(driver.DueDeadline) || d.Row.NextDeadline.Equal(w.at.session.NextDeadline)) &&
		!slices.ContainsFunc(w.c.Messages, func(m cairn.Message) bool { return !m.CreatedAt.IsZero() })
}

// step writes a simple delta. If the server has another row, done is false and nothing was written.
func (w *write) step(ctx context.Context) (row *cairn.Session, done bool, err error) {
	d := w.d
	if w.after.keys == nil {
		bucket, _ := w.db.route(w.id)
		w.after.keys = newStepKeys(w.db.buckets[bucket], d.Row)
	}
	cmd := newCommand()
	defer cmd.free()
	if err := w.fill(cmd); err != nil {
		return nil, false, err
	}
	keys := w.after.keys
	end := stepKeyState
	if d.State != nil {
		end = stepKeyLog
	}
	var events []any
	if len(d.Events) > 0 {
		events = keys.names[stepKeyLog:]
	}
	list := cmd.finish(scriptStep, keys.names[:end], events)
	if !d.DropStaged {
		list[keyOfCommand+stepKeyStaged] = keys.nothing
	}
	answer, err := w.db.answer(ctx, scriptStep, list)
	if err != nil {
		return nil, false, err
	}
	text := plain(answer)
	switch text {
	case "":
		return nil, false, nil
	case "dropped":
		return nil, false, driver.Dropped(d.Row.Log())
	}
	row, err = w.written(ctx, scriptStep, text)
	return row, err == nil, err
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
	cmd.add(w.after.head(cmd.data, 0, len(d.Events) > 0))
	cmd.text(cp.ID)
	if len(d.Events) > 0 {
		cmd.add(openCheckpoint(cmd.data, cp, &w.after))
	} else {
		cmd.add(appendCheckpoint(cmd.data, cp, &w.after))
	}
	cmd.two("s", cp.StepID)
	if len(d.Events) > 0 {
		cmd.text(d.Row.Log())
		if err := w.events(cmd); err != nil {
			return err
		}
	}
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
	usage, err := w.stepUsage()
	cmd.text(usage)
	return err
}
