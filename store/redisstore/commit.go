package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/plan"
)

var (
	scriptLook  = aboutReading("look", "commit")
	scriptClaim = writer("claim", "commit")
)

// write is one commit on its way to the server.
type write struct {
	s  *Store
	id string
	c  *store.Commit
	// attempt names a commit that has neither a step nor a run to be known by, should it be sent twice.
	attempt string
	// copied are messages as they are stored, which a branch has from another session.
	copied []any

	at       *record    // what the session is known to be; nil if nothing is known or there is none
	known    record     // room for at
	after    record     // the session as the delta leaves it, but for its open times
	view     plan.Seen  // room for what is seen
	happened *bool      // whether the commit has happened, if that was read along with the row
	origin   statePlace // of the state that a commit goes back to
	d        *plan.Delta
}

var writes = sync.Pool{New: func() any { return &write{} }}

// statePlace is what belongs to a position of a session's state: the position of the keyframe that it builds on, and
// the sizes.
type statePlace struct {
	Frame    int64 `json:"frame"`
	Keyframe int64 `json:"keyframe"`
	Changes  int64 `json:"changes"`
}

// errMoved says that the row has changed since it was seen.
var errMoved = errors.New("the row has changed")

// Commit implements store.Store. It is one round trip if this process knows the session's row or creates the session.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	err := c.Validate()
	if err == nil && c.Create != nil {
		err = cairn.CheckSessionID(id)
	}
	if err != nil {
		return nil, err
	}
	w := writes.Get().(*write)
	w.s, w.id, w.c = s, id, c
	defer func() {
		*w = write{}
		writes.Put(w)
	}()
	if row, known := s.known.Get(id); row != nil {
		w.known = known
		w.at = &w.known
	} else if c.Create == nil {
		return w.work(ctx, false)
	}
	if w.d = plan.Try(c, w.seen()); w.d != nil {
		if row, err := w.apply(ctx); row != nil || err != nil {
			return row, err
		}
	} else {
		w.at = nil
	}
	return w.work(ctx, true)
}

func (w *write) seen() *plan.Seen {
	w.view = plan.Seen{ID: w.id}
	if w.at != nil {
		w.view.Row, w.view.Checkpoints = w.at.session, w.at.checkpoints
	}
	return &w.view
}

// work does the commit on the row as a script has just answered it, which at is, or on one that is read for it. doubt
// says that conditions of a write did not hold before.
func (w *write) work(ctx context.Context, doubt bool) (*cairn.Session, error) {
	for ; ; doubt = true {
		if w.at == nil {
			run, step := w.keys()
			err := w.look(ctx, plan.Needs{Happened: true, RunID: run, StepID: step}, nil)
			if err != nil && (w.c.Create == nil || !absent(err)) {
				return nil, err
			}
		}
		seen := w.seen()
		seen.Doubt = doubt && w.at != nil
		d, err := plan.Work(w.c, seen, func(n plan.Needs) error { return w.look(ctx, n, seen) })
		switch {
		case errors.Is(err, errMoved):
			continue
		case w.at != nil:
			w.s.remember(w.at)
		}
		if err != nil || d == nil {
			return seen.Row, err
		}
		w.d = d
		if row, err := w.apply(ctx); row != nil || err != nil {
			return row, err
		}
	}
}

// absent reports whether an error says that there is no session of the id, nor a removed one.
func absent(err error) bool {
	var missing *cairn.Error
	return errors.As(err, &missing) && missing.Code == cairn.CodeNotFound && missing.Field == "session"
}

// keys returns the run and the step that the commit is known by; both are empty if there is neither.
func (w *write) keys() (run, step string) {
	if w.c.StartRun != nil {
		run = w.c.StartRun.ID
	}
	if w.c.Checkpoint != nil {
		step = w.c.Checkpoint.StepID
	}
	return run, step
}

// apply writes the delta. Without a result its conditions did not hold, and at is the row that the server saw instead,
// or nil.
func (w *write) apply(ctx context.Context) (*cairn.Session, error) {
	w.fillAfter()
	if w.simple() {
		row, done, err := w.step(ctx)
		if !done && err == nil {
			w.refused(nil)
		}
		return row, err
	}
	return w.rows(ctx)
}

// refused remembers the row that is there instead of the one that the delta expects.
func (w *write) refused(at *record) {
	w.s.known.Drop(w.id)
	w.at, w.happened = at, nil
}

// fillAfter works out what the delta leaves.
func (w *write) fillAfter() {
	r := &w.after
	*r = record{}
	if w.at != nil {
		*r = *w.at
	}
	d := w.d
	r.session, r.checkpoints, r.kind = d.Row, d.Checkpoints, string(d.Due)
	if d.Row.Status == cairn.SessionActive {
		r.kind = string(store.DueCrashed)
	}
	if d.Cut != nil {
		r.frame = w.origin.Frame
	}
	if d.State != nil && d.State.Keyframe {
		r.frame = d.State.Position
	}
	if d.Enqueue != nil {
		r.turns++
	}
}

// look reads the session's row and what else a plan needs to know. A row that is not the one that was seen becomes at,
// and is errMoved.
func (w *write) look(ctx context.Context, n plan.Needs, seen *plan.Seen) error {
	if seen != nil && n.Happened && w.happened != nil {
		seen.Happened, n.Happened = *w.happened, false
	}
	asked := w.questions(&n)
	if seen != nil && len(asked) == 0 {
		w.position(&n, seen)
		return nil
	}
	r, err := w.s.ask(ctx, scriptLook, w.id, asked...)
	if err != nil {
		if seen != nil && absent(err) {
			w.refused(nil)
			return errMoved
		}
		return err
	}
	at, err := readRecord(w.id, r.list(1))
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
		var run, step string // no key has a field of no name
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
	return asked
}

// answer reads what look.lua found, in the order in which it was asked for.
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
		run, err := readRun(w.id, id, plain(origin), plain(data))
		if err != nil {
			return err
		}
		if seen.Runs == nil {
			seen.Runs = map[string]*cairn.Run{}
		}
		seen.Runs[id] = &run
		if id == w.c.RewindRun {
			if w.origin, err = originPlace(plain(origin)); err != nil {
				return err
			}
		}
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

// position answers what belongs to the position of a state, which the run or the checkpoint that it is of has said.
func (w *write) position(n *plan.Needs, seen *plan.Seen) {
	if n.State && w.origin.Frame >= w.at.first && n.Position <= w.at.session.State.Position {
		seen.State = &cairn.StatePosition{Position: n.Position, KeyframeBytes: w.origin.Keyframe, ChangeBytes: w.origin.Changes}
	}
}

// originPlace returns the place of the state where a run began, and checkpointPlace that of a checkpoint, from their
// records.
func originPlace(record string) (at statePlace, err error) {
	var o runOrigin
	_, text, err := dated("run", record)
	if err == nil {
		err = decode("run", text, &o)
	}
	if err == nil {
		err = decode("run", string(o.frameOf), &at)
	}
	return at, err
}

func checkpointPlace(record string) (at statePlace, err error) {
	_, text, err := dated("checkpoint", record)
	if err != nil {
		return at, err
	}
	var skip any
	err = decode("checkpoint", text, &[]any{&skip, &skip, &skip, &skip, &at.Frame, &at.Keyframe, &at.Changes})
	return at, err
}

// claim notes, on a cluster, the bucket of a session that is to be created, so that it is found by its id. If the note
// names another bucket already, it is changed only if anew is set.
func (s *Store) claim(ctx context.Context, id string, home int, anew bool) error {
	own := s.bucketOf(id)
	r, err := s.run(ctx, scriptClaim, own, id, home, own, anew)
	if err != nil {
		return err
	}
	bucket, err := strconv.Atoi(r.text(1))
	if err != nil || bucket < 0 || bucket >= len(s.buckets) {
		return cairn.Errorf(cairn.CodeCorrupt, "session %q: stored bucket %q does not exist", id, r.text(1))
	}
	s.routes.put(id, bucket)
	return nil
}
