package dostore

import (
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// encode adds the rows of a delta at a time, except for the head and the events, and returns the session's row.
func (w *write) encode(r *rows, d *plan.Delta, at time.Time) *cairn.Session {
	row := d.At(at)
	r.expect(r.owner, headKey, w.f.version)
	r.expect(ofTree, "life", w.f.life.version)
	if was := w.f.head; was != nil {
		row.Lease.Until = d.LeaseUntil.On(at, was.Row.Lease.Until)
		if d.LeaseUntil.Kept {
			row.Lease.TTL = was.Row.Lease.TTL
		}
	}
	if d.New {
		r.Clear = append(r.Clear, [3]string{r.owner, "", behind}) // of an import that was given up
		if row.RootID == w.id {
			r.expect(ofTree, "route", 0)
		}
		r.text(ofTree, "member/"+w.id, "")
		r.text(ofTree, "members", "")
		r.text(r.owner, numbered("state", 0), "K"+string(d.Initial))
	}
	if d.Cut != nil {
		r.clear("message", numbered("message", int64(d.Cut.Messages)))
		r.clear("state", numbered("state", d.Cut.State+1))
		r.clear("checkpoint", numbered("checkpoint", d.Cut.Checkpoint+1))
		for i := range w.cut {
			r.Clear = append(r.Clear, only(r.owner, "named/"+w.cut[i].ID), only(r.owner, "step/"+w.cut[i].StepID))
		}
	}
	for i := range w.copied {
		r.put(r.owner, numbered("message", int64(i)), "message", &w.copied[i])
	}
	for i := range d.Messages {
		r.put(r.owner, numbered("message", int64(d.FirstMessage+i)), "message", &d.Messages[i])
	}
	if d.State != nil {
		r.text(r.owner, numbered("state", d.State.Position), encodePiece(d.State))
	}
	w.history(r, d)
	w.waiting(r, d)
	if d.Usage != nil {
		r.usage(d.Usage)
	}
	return row
}

// history adds the runs and the checkpoint of a delta.
func (w *write) history(r *rows, d *plan.Delta) {
	if d.EndRun != nil {
		if old := w.runs[d.EndRun.ID]; old.ID != "" {
			r.put(r.owner, numbered("turn", int64(old.Turn)), "run", d.Ended(&old))
		}
	}
	if d.OnceRun != "" {
		r.expect(r.owner, "run/"+d.OnceRun, 0)
	}
	if d.StartRun != nil {
		key := numbered("turn", int64(d.StartRun.Turn))
		r.put(r.owner, key, "run", d.StartRun)
		r.text(r.owner, "run/"+d.StartRun.ID, key)
	}
	if d.OnceStep != "" {
		r.expect(r.owner, "step/"+d.OnceStep, 0)
	}
	if cp := d.Checkpoint; cp != nil {
		r.expect(r.owner, "named/"+cp.ID, 0)
		r.checkpoint(cp)
	}
}

// waiting adds the calls, the queue, the cache and the staged pieces of a delta.
func (w *write) waiting(r *rows, d *plan.Delta) {
	for i := range d.Calls {
		call := &d.Calls[i].Row
		place := w.calls[call.ID]
		r.expect(ofTree, "call/"+call.ID, place.row)
		if place.row != 0 {
			call = d.Calls[i].On(&cairn.PendingCall{CreatedAt: place.CreatedAt})
		}
		text := r.put(r.owner, "call/"+call.ID, "call", call)
		r.put(ofTree, "call/"+call.ID, "place of a call", callPlace{Session: call.SessionID, Version: call.Version, CreatedAt: call.CreatedAt})
		r.Share = append(r.Share, shareCall(call, text))
	}
	if d.Enqueue != nil {
		r.put(r.owner, numbered("queue", r.at.UnixMicro()), "queued turn", d.Enqueue)
	}
	for _, id := range d.Dequeue {
		r.Clear = append(r.Clear, only(r.owner, w.queue[id]))
	}
	for i := range d.Cache {
		if slices.Contains(d.CacheDrop, d.Cache[i].Key) {
			continue
		}
		r.put(r.owner, "cache/"+d.Cache[i].Key, "cache entry", &d.Cache[i])
	}
	for _, key := range d.CacheDrop {
		r.Clear = append(r.Clear, only(r.owner, "cache/"+key))
	}
	if d.DropStaged {
		r.clear("staged", "staged/")
	}
}

// events adds the events of a delta, and returns the state of the log after them; nil if there are none.
func (w *write) events(r *rows, d *plan.Delta) *logState {
	if len(d.Events) == 0 {
		return nil
	}
	log := d.Row.Log()
	next := w.log.copy()
	if d.Fence {
		next.fence(driver.Writer{Session: w.id, Token: d.Row.Lease.Token}, 0)
	}
	next.add(r, log, w.log.version, d.Finished())
	return next
}
