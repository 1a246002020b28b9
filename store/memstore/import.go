package memstore

import (
	"context"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Inside implements store.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*store.Inside, error) {
	ses, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	in := &store.Inside{FirstState: ses.firstChange, Checkpoints: ses.numbers}
	if ses.stop != nil {
		in.Stop = copyOf(ses.stop)
	}
	if store.DueKindOf(&ses.row) != "" {
		in.DueSince = ses.dueAt
	}
	begin := min(max(from-ses.firstChange, 0), int64(len(ses.changes)))
	for _, ch := range ses.changes[begin:min(begin+int64(max(limit, 0)), int64(len(ses.changes)))] {
		in.States = append(in.States, store.StateChange{Ops: ch.ops, Keyframe: ch.keyframe})
	}
	return in, nil
}

// Import implements store.Importer. The tree is put together first and then seen at once.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*store.Part, error]) error {
	tree, log, err := s.assemble(root, parts)
	if err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, ses := range tree {
		switch there, err := s.find(ses.row.ID, s.clock()); {
		case err != nil:
			return err
		case there != nil:

			return store.Conflict(cairn.CodeExists, copyOf(&there.row), "session %q already exists", ses.row.ID)
		}
	}
	if err := s.log.take(tree[0].row.Log(), log); err != nil {
		return err
	}
	for _, ses := range tree {
		s.sweepFrom(ses.sweepAt)
		s.sessions[ses.row.ID] = ses
		for id := range ses.calls {
			s.owners[callKey{root, id}] = ses
		}
	}
	return nil
}

// assemble puts the sessions of a tree and its log together.
func (s *Store) assemble(root string, parts iter.Seq2[*store.Part, error]) ([]*session, *events, error) {
	var tree []*session
	log := &events{}
	for part, err := range store.CheckImport(root, s.log.max, parts) {
		if err != nil {
			return nil, nil, err
		}
		if part.Session != nil {
			ses := imported(part.Session)
			tree = append(tree, ses)
			if part.Session.Log != nil {
				log.last = part.Session.Log.Last
			}
			log.fenceOf(ses.row.ID).token = ses.row.Lease.Token
		}
		if err := tree[len(tree)-1].add(part); err != nil {
			return nil, nil, err
		}
		log.list = append(log.list, part.Events...)
	}
	rows := make([]*cairn.Session, len(tree))
	for i, ses := range tree {
		rows[i] = &ses.row
	}
	tree[0].sweepAt = store.SweepAt(s.clock(), rows[0], rows[1:]...)
	return tree, log, nil
}

// imported returns a session that owns nothing yet.
func imported(p *store.SessionPart) *session {
	in := &p.Inside
	ses := &session{row: p.Row, stop: in.Stop, firstChange: in.FirstState, numbers: in.Checkpoints, dueAt: in.DueSince,
		runIndex: map[string]int{}, steps: map[string]struct{}{}}
	ses.row.Secret = p.Secret
	return ses
}

// add adds what a part has for the session.
func (ses *session) add(p *store.Part) error {
	for i := range p.States {
		change, err := newChange(&p.States[i])
		if err != nil {
			return err
		}
		ses.changes = append(ses.changes, change)
	}
	ses.messages = append(ses.messages, p.Messages...)
	for i := range p.Runs {
		ses.runIndex[p.Runs[i].ID] = len(ses.runs)
		ses.runs = append(ses.runs, copyOf(&p.Runs[i]))
	}
	for i := range p.Checkpoints {
		ses.checkpoints = append(ses.checkpoints, copyOf(&p.Checkpoints[i]))
		if step := p.Checkpoints[i].StepID; step != "" {
			ses.steps[step] = struct{}{}
		}
	}
	for i := range p.Calls {
		ses.putCall(copyOf(&p.Calls[i]))
	}
	ses.queue = append(ses.queue, p.Queue...)
	for _, piece := range p.Staged {
		piece.Data = slices.Clone(piece.Data)
		ses.staged = append(ses.staged, piece)
	}
	ses.keep(&store.Commit{Cache: p.Cache})
	return nil
}

// take gives a log that was put together elsewhere its name.
func (l *Log) take(name string, log *events) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.logs[name]; there != nil && there.last > 0 {
		return store.LogExists(name)
	}
	delete(l.dropped, name)
	l.logs[name] = log
	l.hub.Wake(name)
	return nil
}
