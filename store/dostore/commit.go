package dostore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// write is one commit on its way to an object.
type write struct {
	st *Store
	id string
	c  *driver.Commit

	f         *found               // the session as it is known; without a head if it does not exist
	rootAgent string               // of a new child
	queue     map[string]string    // keys of queued turns, by id
	calls     map[string]callPlace // that exist, by id
	runs      map[string]cairn.Run // that were read, by id
	cut       []cairn.Checkpoint   // that a rewind removes
	log       *logState            // of the tree's log, for a commit with events
	taken     bool                 // the id of the checkpoint was taken at the attempt before
	copied    []cairn.Message      // of a branch, from its source
}

// Commit implements driver.Store. It is one round trip if this process knows the session's row and has written to its
// log, or creates a root.
func (s *Store) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	err := c.ValidateFor(driver.Abilities{MaxEvent: s.opts.MaxEvent})
	if err == nil && c.Create != nil {
		err = cairn.CheckSessionID(id)
	}
	if err != nil {
		return nil, err
	}
	w := &write{st: s, id: id, c: c}
	if row, k := s.known.Get(id); row != nil {
		w.f = &found{link: s.tree(k.head.Row.RootID), root: k.head.Row.RootID, known: k}
	} else if c.Create != nil && (c.Create.RootID == "" || c.Create.RootID == id) {
		w.f = &found{link: s.tree(id), root: id}
	}
	if w.f != nil && len(c.Calls) == 0 && !w.expires() {
		if d := plan.Try(c, w.seen()); d != nil {
			if row, err := w.apply(ctx, d); row != nil || err != nil {
				return row, err
			}
		}
	}
	return w.work(ctx)
}

func (w *write) seen() *plan.Seen {
	if w.f.head == nil {
		return &plan.Seen{ID: w.id}
	}
	return &plan.Seen{ID: w.id, Row: backend.CopyRow(&w.f.head.Row), Checkpoints: w.f.head.LastCheckpoint}
}

// work plans and writes the commit on the session as it reads it.
func (w *write) work(ctx context.Context) (*cairn.Session, error) {
	for {
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		seen := w.seen()
		seen.Doubt = true
		d, err := plan.Work(w.c, seen, func(n plan.Needs) error { return w.answer(ctx, n, seen) })
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return seen.Row, err
		case d == nil: // it was applied before
			return seen.Row, nil
		}
		if row, err := w.apply(ctx, d); row != nil || err != nil {
			return row, err
		}
	}
}

// look reads the session, and for a new child also claims its id.
func (w *write) look(ctx context.Context) (err error) {
	*w = write{st: w.st, id: w.id, c: w.c, taken: w.taken}
	w.f, err = w.st.find(ctx, w.id)
	if err != nil || w.f.head != nil || w.c.Create == nil {
		return err
	}
	root := w.c.Create.RootID
	if root == "" || root == w.id {
		w.f = &found{link: w.st.tree(w.id), root: w.id, known: known{life: w.f.life}}
		return nil
	}
	taken, err := w.st.claim(ctx, w.id, root)
	if err != nil {
		return err
	}
	if taken != nil {
		w.f = taken
		return nil
	}
	of, err := w.st.locate(ctx, root)
	switch {
	case err != nil:
		return err
	case of.life.Removed != nil:
		return driver.Gone(root, *of.life.Removed)
	}
	if w.rootAgent = w.c.Create.Agent; of.head != nil {
		w.rootAgent = of.head.Row.Agent
	}
	w.f = &found{link: w.st.tree(root), root: root, known: known{life: of.life}}
	return nil
}

// answer reads what a plan needs, from the version of the session that it is made for.
func (w *write) answer(ctx context.Context, n plan.Needs, seen *plan.Seen) error {
	owner := ofSession(w.id)
	var asks []ask
	add := func(when bool, a ask) int {
		if !when {
			return -1
		}
		asks = append(asks, a)
		return len(asks) // the head comes first
	}
	run := add(n.Happened && n.RunID != "", get(owner, "run/"+n.RunID))
	step := add(n.Happened && n.StepID != "", get(owner, "step/"+n.StepID))
	checkpoint := add(n.Checkpoint != "", via(owner, "named/"+n.Checkpoint))
	state := add(n.State, stateAt(owner, n.Position))
	queue := add(n.Queue, every(owner, "queue"))
	runs := len(asks) + 1
	for _, id := range n.Runs {
		asks = append(asks, via(owner, "run/"+id))
	}
	calls := len(asks) + 1
	for _, id := range n.Calls {
		asks = append(asks, get(ofTree, "call/"+id))
	}
	a, err := w.f.again(ctx, w.id, asks...)
	if err != nil {
		return err
	}
	for _, i := range []int{run, step} {
		if i > 0 {
			r, err := a.one(i)
			if err != nil {
				return err
			}
			seen.Happened = seen.Happened || r != nil
		}
	}
	if checkpoint > 0 {
		r, err := a.one(checkpoint)
		if err == nil {
			seen.Checkpoint, err = rowOf[cairn.Checkpoint]("checkpoint", r)
		}
		if err != nil {
			return err
		}
	}
	if state > 0 {
		if err := seenState(a, state, n.Position, seen); err != nil {
			return err
		}
	}
	if queue > 0 {
		if err := w.seenQueue(a, queue, seen); err != nil {
			return err
		}
	}
	if err := w.seenRuns(a, runs, n.Runs, seen); err != nil {
		return err
	}
	return w.seenCalls(a, calls, n.Calls, seen)
}

// seenState answers with the sizes of the state at a position.
func seenState(a *answer, i int, position int64, seen *plan.Seen) error {
	list, err := a.all(i)
	if err != nil || len(list) == 0 {
		return err
	}
	at := cairn.StatePosition{Position: position}
	for i := range list {
		p, err := decodePiece(&list[i])
		switch {
		case err != nil:
			return err
		case i == 0 && p.Position != position:
			return nil // not kept
		case p.Keyframe:
			at.KeyframeBytes = int64(len(p.Data))
			seen.State = &at
			return nil
		}
		at.ChangeBytes += int64(len(p.Data))
	}
	return nil // its keyframe was pruned
}

func (w *write) seenQueue(a *answer, i int, seen *plan.Seen) error {
	list, err := a.all(i)
	if err != nil {
		return err
	}
	turns, err := rowsOf[driver.QueuedTurn]("queued turn", list)
	w.queue = map[string]string{}
	for i := range turns {
		seen.Queue = append(seen.Queue, turns[i].ID)
		w.queue[turns[i].ID] = list[i].key
	}
	return err
}

func (w *write) seenRuns(a *answer, from int, ids []string, seen *plan.Seen) error {
	for i, id := range ids {
		r, err := a.one(from + i)
		if err != nil || r == nil {
			if err != nil {
				return err
			}
			continue
		}
		run, err := rowOf[cairn.Run]("run", r)
		if err != nil {
			return err
		}
		if seen.Runs == nil {
			seen.Runs, w.runs = map[string]*cairn.Run{}, map[string]cairn.Run{}
		}
		seen.Runs[id], w.runs[id] = run, *run
	}
	return nil
}

func (w *write) seenCalls(a *answer, from int, ids []string, seen *plan.Seen) error {
	if len(ids) > 0 {
		seen.Calls, w.calls = map[string]plan.CallSeen{}, map[string]callPlace{}
	}
	for i, id := range ids {
		r, err := a.one(from + i)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		place, err := rowOf[callPlace]("place of a call", r)
		if err != nil {
			return err
		}
		seen.Calls[id] = plan.CallSeen{SessionID: place.Session, Version: place.Version}
		place.row = r.version
		w.calls[id] = *place
	}
	return nil
}

// apply writes the delta. A nil row without an error means that its conditions did not hold.
func (w *write) apply(ctx context.Context, d *plan.Delta) (*cairn.Session, error) {
	if len(d.Events) > 0 {
		var err error
		if w.log, err = w.st.log.state(ctx, d.Row.Log()); err != nil {
			return nil, err
		}
		if w.log.Dropped {
			return nil, driver.Dropped(d.Row.Log())
		}
		d.Logged(w.log.Last)
	}
	if err := w.before(ctx, d); err != nil {
		if errors.Is(err, errMoved) {
			err = nil
		}
		return nil, err
	}
	var next *head
	var lives life
	var row *cairn.Session
	var log *logState
	refused, version, err := w.f.link.write(ctx, func(at time.Time) (*request, error) {
		r := &rows{owner: ofSession(w.id), at: at}
		row = w.encode(r, d, at)
		next = &head{}
		w.headAfter(next, d, row)
		r.head(next)
		if was := w.f.head; was != nil && next.Stop == nil {
			r.stop(w.id, was.Stop, nil)
		}
		lives = w.f.life
		if next.Row.RootID == w.id {
			lives.SweepAt = next.SweepAt
			r.life(w.id, &lives, &w.f.life)
		}
		log = w.events(r, d)
		return &r.request, r.err
	})
	if err != nil {
		w.st.known.Drop(w.id)
		w.st.log.unknown(d)
		return nil, err
	}
	if refused != nil {
		w.st.known.Drop(w.id)
		w.st.log.forget(d.Row.Log())
		if strings.HasPrefix(refused.Key, "named/") {
			if w.taken {
				return nil, plan.Taken(w.id, cairn.Invalid("checkpoint", "%q exists", d.Checkpoint.ID))
			}
			w.taken = true
		}
		return nil, nil
	}
	if log != nil {
		log.version = version
		w.st.log.appended(d.Row.Log(), log, d.Finished())
	}
	if d.New && next.Row.RootID != w.id {
		w.st.routes.put(w.id, next.Row.RootID)
	}
	if !lives.SweepAt.Equal(w.f.life.SweepAt) {
		lives.version = version
	}
	w.st.remember(known{next.copy(), version, lives})
	return row, nil
}

// expires reports whether the tree may have expired, as far as this process knows.
func (w *write) expires() bool {
	now := stamp(w.st.clock.now())
	return w.f.life.stale(now) && (w.f.head == nil || !w.f.head.Row.Running(now))
}

// before reads what the writing of a delta needs beyond its plan: the checkpoints that it cuts, and the run that it ends.
func (w *write) before(ctx context.Context, d *plan.Delta) error {
	owner := ofSession(w.id)
	var asks []ask
	if d.Cut != nil {
		asks = append(asks, scan(owner, numbered("checkpoint", d.Cut.Checkpoint+1), after("checkpoint")))
	}
	ends := d.EndRun != nil && w.runs[d.EndRun.ID].ID == ""
	if ends {
		asks = append(asks, via(owner, "run/"+d.EndRun.ID))
	}
	if len(asks) == 0 {
		return nil
	}
	a, err := w.f.again(ctx, w.id, asks...)
	if err != nil {
		return err
	}
	if d.Cut != nil {
		if w.cut, err = allOf[cairn.Checkpoint]("checkpoint", a, 1); err != nil {
			return err
		}
	}
	if ends {
		r, err := a.one(len(asks))
		if err != nil || r == nil {
			return err
		}
		run, err := rowOf[cairn.Run]("run", r)
		if err != nil {
			return err
		}
		if w.runs == nil {
			w.runs = map[string]cairn.Run{}
		}
		w.runs[run.ID] = *run
	}
	return nil
}

// headAfter fills in the head that the delta leaves.
func (w *write) headAfter(next *head, d *plan.Delta, row *cairn.Session) {
	next.RootAgent = w.rootAgent
	var dueAt, sweepAt time.Time
	if was := w.f.head; was != nil {
		next.RootAgent = was.RootAgent
		dueAt, sweepAt = was.DueAt, was.SweepAt
		if was.Stop != nil && was.Stop.RunID != d.DropStop {
			next.Stop = was.Stop
		}
	}
	if next.RootAgent == "" {
		next.RootAgent = row.Agent
	}
	next.Row, next.LastCheckpoint = *row, d.Checkpoints
	next.DueAt, next.SweepAt = d.DueAt.On(row.AsOf, dueAt), d.SweepAt.On(row.AsOf, sweepAt)
}
