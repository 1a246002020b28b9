package dostore

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// change changes a session's head, and other rows of it, by a function that may be called several times, on a copy of
// the head as it is. The function returns false if there is nothing to write.
func (s *Store) change(ctx context.Context, id string, more []ask, do func(f *found, h *head, r *rows) (bool, error)) error {
	for {
		f, err := s.open(ctx, id, more...)
		if err != nil {
			return err
		}
		var next *head
		idle := false
		refused, version, err := f.link.write(ctx, func(at time.Time) (*request, error) {
			r := &rows{owner: ofSession(id), at: at}
			r.expect(r.owner, headKey, f.version)
			r.expect(ofTree, "life", f.life.version)
			next = f.head.copy()
			write, err := do(f, next, r)
			if err != nil {
				return nil, err
			}
			if idle = !write; idle {
				return nil, errMoved
			}
			r.head(next)
			return &r.request, r.err
		})
		switch {
		case idle:
			return nil
		case err != nil:
			s.known.Drop(id)
			return err
		case refused == nil:
			s.remember(known{next, version, f.life})
			return nil
		}
		s.known.Drop(id)
	}
}

// Stage implements driver.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	for {
		var asks []ask
		for i := range pieces {
			asks = append(asks, get(ofSession(id), stagedKey(&pieces[i])))
		}
		f, err := s.open(ctx, id, asks...)
		if err != nil {
			return err
		}
		if err := plan.Ended(&f.head.Row, token); err != nil {
			return err
		}
		r := &rows{owner: ofSession(id)}
		r.expect(r.owner, headKey, f.version)
		r.expect(ofTree, "life", f.life.version)
		staged := map[string]bool{}
		for i := range pieces {
			key := stagedKey(&pieces[i])
			there, err := f.a.one(1 + i)
			if err != nil {
				return err
			}
			if there == nil && !staged[key] {
				r.expect(r.owner, key, 0)
				r.put(r.owner, key, "staged piece", stagedPiece{i, pieces[i]})
				staged[key] = true
			}
		}
		if r.err != nil || len(staged) == 0 {
			return r.err
		}
		if refused, _, err := f.link.write(ctx, fixed(&r.request)); refused == nil || err != nil {
			return err
		}
	}
}

func stagedKey(p *driver.Staged) string {
	return fmt.Sprintf("staged/%d %s %s", len(p.StepID), p.StepID, p.Key)
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (stop *cairn.Stop, err error) {
	err = s.change(ctx, id, nil, func(_ *found, h *head, r *rows) (bool, error) {
		stop = backend.StopOf(h.Row.RunID, h.Stop)
		if err := plan.Released(&h.Row, token); err != nil {
			return false, err
		}
		h.Row.Lease.Until, h.Row.Lease.TTL = r.at.Add(ttl).Truncate(time.Microsecond), cairn.Duration(ttl)
		return true, nil
	})
	if err != nil {
		stop = nil
	}
	return stop, err
}

// RequestStop implements driver.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	return s.change(ctx, id, nil, func(_ *found, h *head, r *rows) (bool, error) {
		stands, write, err := plan.Stopped(&h.Row, h.Stop, stop)
		if err != nil || !write {
			return false, err
		}
		stands.At = r.at
		r.stop(id, h.Stop, &stands)
		h.Stop = &stands
		return true, nil
	})
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (n int, err error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	owner := ofSession(id)
	err = s.change(ctx, id, []ask{every(owner, "checkpoint"), every(owner, "state")}, func(f *found, h *head, r *rows) (bool, error) {
		doc := &backend.Document{Row: h.Row}
		if err := history(doc, f.a, 1); err != nil {
			return false, err
		}
		before := doc.Checkpoints
		if n = doc.Prune(keep); n == 0 {
			return false, nil
		}
		for i := range before[:n] {
			r.Clear = append(r.Clear, only(owner, "named/"+before[i].ID), only(owner, "step/"+before[i].StepID))
		}
		r.Clear = append(r.Clear, [3]string{owner, "checkpoint/", numbered("checkpoint", doc.Checkpoints[0].Number)},
			[3]string{owner, "state/", numbered("state", doc.States[0].Position)})
		return true, nil
	})
	return n, err
}

// history fills in the checkpoints and states of a document, from two parts of an answer that begin at i.
func history(doc *backend.Document, a *answer, i int) (err error) {
	if doc.Checkpoints, err = allOf[cairn.Checkpoint]("checkpoint", a, i); err != nil {
		return err
	}
	list, err := a.all(i + 1)
	if err != nil {
		return err
	}
	for i := range list {
		p, err := decodePiece(&list[i])
		if err != nil {
			return err
		}
		doc.States = append(doc.States, p)
	}
	if len(doc.States) == 0 || !doc.States[0].Keyframe {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q is stored without its first state", doc.Row.ID)
	}
	return nil
}

// Branch implements driver.Store. The source may change between the read of it and the write of the branch, which has it
// as it was at one time.
func (s *Store) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	c := at.Commit(to)
	err := c.ValidateFor(driver.Abilities{MaxEvent: s.opts.MaxEvent})
	if err == nil {
		err = cairn.CheckSessionID(to.ID)
	}
	if err != nil {
		return nil, err
	}
	owner := ofSession(from)
	f, err := s.open(ctx, from, every(owner, "message"), every(owner, "checkpoint"), every(owner, "state"))
	if err != nil {
		return nil, err
	}
	doc := &backend.Document{Row: f.head.Row}
	if doc.Messages, err = allOf[cairn.Message]("message", f.a, 1); err != nil {
		return nil, err
	}
	if err := history(doc, f.a, 2); err != nil {
		return nil, err
	}
	for {
		w := &write{st: s, id: to.ID, c: c}
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		if w.f.head != nil {
			return nil, driver.Conflict(cairn.ErrExists, backend.CopyRow(&w.f.head.Row), "session %q already exists", to.ID)
		}
		d, err := doc.PlanBranch(at, to)
		if err != nil {
			return nil, err
		}
		w.copied = doc.Messages[:d.FirstMessage]
		if row, err := w.apply(ctx, d); row != nil || err != nil {
			return row, err
		}
	}
}

// Delete implements driver.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	owner := ofSession(id)
	for {
		f, err := s.open(ctx, id, every(owner, "call"))
		if err != nil {
			return err
		}
		row := &f.head.Row
		if row.Running(row.AsOf) {
			return driver.Conflict(cairn.ErrAlreadyRunning, backend.CopyRow(row), "session %q is running", id)
		}
		calls, err := allOf[cairn.PendingCall]("call", f.a, 1)
		if err != nil {
			return err
		}
		r := &request{If: []condition{{owner, headKey, f.version}, {ofTree, "life", f.life.version}}, Share: []shared{{Source: owner}}}
		r.Clear = [][3]string{{owner, "", behind}, only(ofTree, "member/"+id)}
		r.Put = [][3]string{{ofTree, "members", ""}}
		if f.head.Stop != nil {
			r.Share = append(r.Share, shared{Source: sourceOfStop(id)})
		}
		if row.RootID == id {
			r.Clear = append(r.Clear, only(ofTree, "life"))
			r.Share = append(r.Share, shared{Source: sourceOfStale(id)})
		}
		for i := range calls {
			r.Clear = append(r.Clear, only(ofTree, "call/"+calls[i].ID))
			r.Share = append(r.Share, shared{Source: sourceOfCall(row.RootID, calls[i].ID)})
		}
		refused, _, err := f.link.write(ctx, fixed(r))
		s.known.Drop(id)
		switch {
		case err != nil:
			return err
		case refused != nil:
			continue
		case row.RootID == id:
			return nil
		}
		// If this fails, the note names no session, and the next creator of a session with that id corrects it.
		s.routes.forget(id)
		_, _, err = s.tree(id).write(ctx, fixed(&request{Clear: [][3]string{only(ofTree, "route")}}))
		return err
	}
}
