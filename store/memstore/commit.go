package memstore

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := c.ValidateFor(driver.Abilities{MaxEvent: s.log.max}); err != nil {
		return nil, err
	}
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	doc, err := s.find(id, now)
	if err != nil {
		return nil, err
	}
	seen := doc.Seen(id)
	d, err := plan.Work(c, seen, func(n plan.Needs) error {
		s.answer(doc, n, seen)
		return nil
	})
	if err != nil || d == nil {
		return seen.Row, err
	}
	if doc == nil {
		doc = &backend.Document{}
	}
	row, err := s.log.publish(ctx, d, func() *cairn.Session { return doc.Apply(d, now) })
	if err != nil {
		return nil, err
	}
	s.sessions[id] = doc
	if d.Usage != nil {
		s.usage.rows = append(s.usage.rows, copyUsage(d.Usage))
	}
	s.sweepFrom(doc.SweepAt)
	for i := range d.Calls {
		s.owners[callKey{row.RootID, d.Calls[i].Row.ID}] = doc
	}
	return row, nil
}

// answer reads what a plan needs of a session; doc is nil for a session that does not exist.
func (s *Store) answer(doc *backend.Document, n plan.Needs, seen *plan.Seen) {
	if doc != nil {
		doc.Answer(n, seen)
	}
	for _, id := range n.Calls {
		if owner := s.owners[callKey{n.Root, id}]; owner != nil {
			if seen.Calls == nil {
				seen.Calls = map[string]plan.CallSeen{}
			}
			seen.Calls[id] = plan.CallSeen{SessionID: owner.Row.ID, Version: owner.Calls[id].Version}
		}
	}
}

// Branch implements driver.Store.
func (s *Store) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	doc, err := s.open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	switch there, err := s.find(to.ID, now); {
	case err != nil:
		return nil, err
	case there != nil:
		return nil, driver.Conflict(cairn.ErrExists, copyOf(&there.Row), "session %q already exists", to.ID)
	}
	if err := at.Commit(to).ValidateFor(driver.Abilities{MaxEvent: s.log.max}); err != nil {
		return nil, err
	}
	d, err := doc.PlanBranch(at, to)
	if err != nil {
		return nil, err
	}
	var branch *backend.Document
	if _, err := s.log.publish(ctx, d, func() *cairn.Session { branch = doc.Branched(d, now); return &branch.Row }); err != nil {
		return nil, err
	}
	s.sessions[to.ID] = branch
	for id := range branch.Calls {
		s.owners[callKey{branch.Row.RootID, id}] = branch
	}
	s.sweepFrom(branch.SweepAt)
	return copyOf(&branch.Row), nil
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (int, error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	doc, err := s.open(ctx, id)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return doc.Prune(keep), nil
}
