package redisstore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/plan"
)

var scriptLook = about("look", "commit", reads)

// look reads the session's row and what else a plan needs. If the row is not the one that was seen, it becomes w.at,
// and the error is errMoved.
func (w *write) look(ctx context.Context, n plan.Needs, seen *plan.Seen) error {
	if seen != nil && n.Happened && w.happened != nil {
		seen.Happened, n.Happened = *w.happened, false
	}
	asked := w.questions(&n)
	if seen != nil && len(asked) == 0 {
		w.position(&n, seen)
		return nil
	}
	r, err := w.db.ask(ctx, scriptLook, w.id, asked...)
	if err != nil {
		if seen != nil && absent(err) {
			w.refused(nil)
			return errMoved
		}
		return err
	}
	at, err := readStored(w.id, r.list(1))
	if err != nil {
		return err
	}
	if seen == nil || at.session.Version != w.at.session.Version || at.since != w.at.since {
		w.refused(at)
	}
	found := r.list(2)
	if seen == nil {
		w.happened = new(found[0] != nil || found[1] != nil)
		return nil
	}
	if w.at == at {
		return errMoved
	}
	return w.answer(&n, seen, found)
}

// questions returns what look.lua is to read.
func (w *write) questions(n *plan.Needs) (asked []any) {
	get := func(key, field string) { asked = append(asked, "HGET", key, field) }
	if n.Happened {
		var run, step string // no hash has a field without a name
		if n.RunID != "" {
			run = "o" + n.RunID
		}
		if n.StepID != "" {
			step = "s" + n.StepID
		}
		get("r:"+w.id, run)
		get("c:"+w.id, step)
	}
	for _, run := range n.Runs {
		get("r:"+w.id, "o"+run)
		get("r:"+w.id, "d"+run)
	}
	if n.Checkpoint != "" {
		get("c:"+w.id, "c"+n.Checkpoint)
	}
	for _, id := range n.Calls {
		get("w:"+n.Root, id)
	}
	if n.Queue {
		asked = append(asked, "HKEYS", "q:"+w.id, "")
	}
	if w.searches(n) {
		asked = append(asked, "PLACE", "f:"+w.id, n.Position)
	}
	return asked
}

// answer decodes what look.lua found, in the order of the questions.
func (w *write) answer(n *plan.Needs, seen *plan.Seen, found []any) error {
	next := func() any {
		v := found[0]
		found = found[1:]
		return v
	}
	if n.Happened {
		run, step := next(), next()
		seen.Happened = run != nil || step != nil
	}
	for _, id := range n.Runs {
		origin, data := next(), next()
		if origin == nil {
			continue
		}
		run, err := readRun(w.id, id, plain(origin), plain(data), "")
		if err != nil {
			return err
		}
		if seen.Runs == nil {
			seen.Runs = map[string]*cairn.Run{}
		}
		seen.Runs[id] = &run
	}
	if n.Checkpoint != "" {
		if err := w.checkpoint(n.Checkpoint, next(), seen); err != nil {
			return err
		}
	}
	for _, id := range n.Calls {
		record := next()
		if record == nil {
			continue
		}
		call, err := readCall(n.Root, id, plain(record))
		if err != nil {
			return err
		}
		if seen.Calls == nil {
			seen.Calls = map[string]plan.CallSeen{}
		}
		seen.Calls[id] = plan.CallSeen{SessionID: call.SessionID, Version: call.Version}
	}
	if n.Queue {
		turns, _ := next().([]any)
		for _, turn := range turns {
			seen.Queue = append(seen.Queue, plain(turn))
		}
	}
	if w.searches(n) {
		place := reply{next()}.list(0)
		if len(place) == 0 {
			return nil
		}
		for i, to := range []*int64{&w.origin.frame, &w.origin.keyframe, &w.origin.changes} {
			*to, _ = place[i].(int64)
		}
	}
	w.position(n, seen)
	return nil
}

// checkpoint reads a checkpoint that was asked for.
func (w *write) checkpoint(id string, record any, seen *plan.Seen) (err error) {
	if record == nil {
		return nil
	}
	if seen.Checkpoint, err = readCheckpoint(w.id, id, plain(record)); err != nil || w.c.Rewind == "" {
		return err
	}
	w.origin, err = checkpointPlace(plain(record))
	return err
}

// searches reports whether the place of the state is to be looked for. A checkpoint has recorded it, and is removed with
// its state; a run stays, and another state may have got the position where it began.
func (w *write) searches(n *plan.Needs) bool {
	return n.State && w.c.RewindRun != "" && n.Position <= w.at.session.State.Position
}

// position fills in seen.State, once its place is known.
func (w *write) position(n *plan.Needs, seen *plan.Seen) {
	if n.State && w.origin.frame >= w.at.first && n.Position <= w.at.session.State.Position {
		seen.State = &cairn.StatePosition{Position: n.Position, KeyframeBytes: w.origin.keyframe, ChangeBytes: w.origin.changes}
	}
}

// checkpointPlace returns the place of a checkpoint's state, from its record.
func checkpointPlace(record string) (at statePlace, err error) {
	_, text, err := dated("checkpoint", record)
	if err != nil {
		return at, err
	}
	var skip any
	err = backend.DecodeJSON("checkpoint", text, &[]any{&skip, &skip, &skip, &skip, &at.frame, &at.keyframe, &at.changes})
	return at, err
}

// errMoved says that the row has changed since it was seen.
var errMoved = errors.New("the row has changed")
