package memstore

import (
	"context"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Inside implements driver.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*driver.Inside, error) {
	doc, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	in := &driver.Inside{FirstState: doc.States[0].Position, Checkpoints: doc.LastCheckpoint}
	if doc.Stop != nil {
		in.Stop = copyOf(doc.Stop)
	}
	if driver.DueKindOf(&doc.Row) != "" {
		in.DueSince = doc.DueAt
	}
	begin := min(max(from-in.FirstState, 0), int64(len(doc.States)))
	for _, piece := range doc.States[begin:min(begin+int64(max(limit, 0)), int64(len(doc.States)))] {
		change := driver.StateChange{Keyframe: piece.Data}
		if !piece.Keyframe {
			change = driver.StateChange{Ops: piece.Ops}
		}
		in.States = append(in.States, change)
	}
	return in, nil
}

// Import implements driver.Importer. It assembles the whole tree first and then adds it at once.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) error {
	tree, log, err := s.assemble(root, parts)
	if err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, doc := range tree {
		switch there, err := s.find(doc.Row.ID, s.clock()); {
		case err != nil:
			return err
		case there != nil:
			return driver.Conflict(cairn.ErrExists, copyOf(&there.Row), "session %q already exists", doc.Row.ID)
		}
	}
	if err := s.log.take(tree[0].Row.Log(), log); err != nil {
		return err
	}
	for _, doc := range tree {
		s.sweepFrom(doc.SweepAt)
		s.sessions[doc.Row.ID] = doc
		for id := range doc.Calls {
			s.owners[callKey{root, id}] = doc
		}
	}
	return nil
}

// assemble builds the sessions of a tree and its log.
func (s *Store) assemble(root string, parts iter.Seq2[*driver.Part, error]) ([]*backend.Document, *events, error) {
	var tree []*backend.Document
	log := &events{}
	var first int64
	for part, err := range driver.CheckImport(root, s.log.max, parts) {
		if err != nil {
			return nil, nil, err
		}
		if part.Session != nil {
			doc := imported(part.Session)
			first = part.Session.Inside.FirstState
			tree = append(tree, doc)
			if part.Session.Log != nil {
				log.last = part.Session.Log.Last
			}
			log.fenceOf(doc.Row.ID).token = doc.Row.Lease.Token
		}
		if err := add(tree[len(tree)-1], first, part); err != nil {
			return nil, nil, err
		}
		if len(part.Events) > 0 {
			log.chunks, log.count = append(log.chunks, slices.Clone(part.Events)), log.count+len(part.Events)
		}
	}
	rows := make([]*cairn.Session, len(tree))
	for i, doc := range tree {
		rows[i] = &doc.Row
	}
	tree[0].SweepAt = driver.SweepAt(s.clock(), rows[0], rows[1:]...)
	return tree, log, nil
}

// imported returns the document of an imported session, without anything that the session owns.
func imported(p *driver.SessionPart) *backend.Document {
	in := &p.Inside
	doc := &backend.Document{Row: p.Row, Stop: in.Stop, LastCheckpoint: in.Checkpoints, DueAt: in.DueSince}
	doc.Row.Secret = p.Secret
	doc.Row.Tenant, _ = cairn.SplitTenant(p.Row.ID)
	return doc
}

// add adds a part to its session. The positions of the session's states begin at first.
func add(doc *backend.Document, first int64, p *driver.Part) error {
	for i := range p.States {
		piece, err := plan.PieceOf(first+int64(len(doc.States)), &p.States[i])
		if err != nil {
			return err
		}
		doc.States = append(doc.States, *piece)
	}
	doc.Messages = append(doc.Messages, p.Messages...)
	doc.Runs = append(doc.Runs, p.Runs...)
	doc.Checkpoints = append(doc.Checkpoints, p.Checkpoints...)
	for i := range p.Calls {
		if doc.Calls == nil {
			doc.Calls = map[string]*cairn.PendingCall{}
		}
		call := copyOf(&p.Calls[i])
		call.Tenant = doc.Row.Tenant
		doc.Calls[call.ID] = call
	}
	doc.Queue = append(doc.Queue, p.Queue...)
	for _, piece := range p.Staged {
		piece.Data = slices.Clone(piece.Data)
		doc.Staged = append(doc.Staged, piece)
	}
	for _, e := range p.Cache {
		if doc.Cache == nil {
			doc.Cache = map[string]driver.CacheEntry{}
		}
		doc.Cache[e.Key] = e
	}
	return nil
}

// take adds an assembled log under its name.
func (l *Log) take(name string, log *events) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.logs[name]; there != nil && there.last > 0 {
		return driver.LogExists(name)
	}
	delete(l.dropped, name)
	if log.last > 0 {
		log.sweepAt = l.clock()
	}
	l.logs[name] = log
	l.hub.Wake(name)
	return nil
}
