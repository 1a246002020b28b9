package dostore

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var _ driver.Importer = (*Store)(nil)

// Inside implements driver.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*driver.Inside, error) {
	owner := ofSession(id)
	first := every(owner, "state")
	first.Limit = 1
	list := scan(owner, numbered("state", max(from, 0)), after("state"))
	list.Limit = max(limit, 1)
	f, err := s.open(ctx, id, first, list)
	if err != nil {
		return nil, err
	}
	in := &driver.Inside{Checkpoints: f.head.LastCheckpoint, Stop: f.head.Stop}
	if driver.DueKindOf(&f.head.Row) != "" {
		in.DueSince = f.head.DueAt
	}
	oldest, err := f.a.all(1)
	if err != nil || len(oldest) == 0 {
		return nil, errors.Join(err, cairn.Errorf(cairn.ErrCorrupt, "session %q is stored without its first state", id))
	}
	if in.FirstState, err = numberOf(oldest[0].key); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "invalid stored state %q", oldest[0].key)
	}
	pieces, err := f.a.all(2)
	if err != nil {
		return nil, err
	}
	for i := range pieces[:min(len(pieces), max(limit, 0))] {
		p, err := decodePiece(&pieces[i])
		if err != nil {
			return nil, err
		}
		change := driver.StateChange{Keyframe: p.Data}
		if !p.Keyframe {
			change = driver.StateChange{}
			if change.Ops, err = p.Changes(); err != nil {
				return nil, err
			}
		}
		in.States = append(in.States, change)
	}
	return in, nil
}

// importKey is the key of a row of a session that is being imported. The creation of a session with that id removes it.
const importKey = "import"

// importBytes is about how much of a tree one write of an import has.
const importBytes = 4 << 20

// arrival is a tree that is being imported. Its rows are written first, in several writes. The last write has what makes
// them visible: the heads, the places of calls and the state of the log. Rows of an import that was given up are
// invisible, and are removed when a session with that id is created or imported.
type arrival struct {
	st   *Store
	root string
	link *link
	rows *rows

	heads    []*head
	versions []int64 // of the rows with importKey
	calls    []cairn.PendingCall
	state    int64 // position of the next piece of state
	messages int   // number of messages of the session
	queued   int64 // number of queued turns of the session
	staged   int   // number of staged pieces of the session
	name     string
	log      logState
	there    *logState // the log of that name before
}

// Import implements driver.Importer.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) error {
	in := &arrival{st: s, root: root, link: s.tree(root), rows: &rows{}, log: logState{First: 1}}
	for part, err := range driver.CheckImport(root, s.opts.MaxEvent, parts) {
		if err == nil && part.Session != nil {
			err = in.begin(ctx, part.Session)
		}
		if err == nil {
			in.add(part)
			err = in.flush(ctx, importBytes)
		}
		if err != nil {
			return err
		}
	}
	if err := in.flush(ctx, 0); err != nil {
		return err
	}
	return in.finish(ctx)
}

// begin adds a session, whose rows follow.
func (in *arrival) begin(ctx context.Context, p *driver.SessionPart) error {
	if err := in.flush(ctx, 0); err != nil {
		return err
	}
	id := p.Row.ID
	f, err := in.st.find(ctx, id)
	if err == nil && f.head == nil && id != in.root {
		if f, err = in.st.claim(ctx, id, in.root); f == nil && err == nil {
			f = &found{}
		}
	}
	switch {
	case err != nil:
		return err
	case f.head != nil:
		return driver.Conflict(cairn.ErrExists, backend.CopyRow(&f.head.Row), "session %q already exists", id)
	}
	h := &head{Row: p.Row, Stop: p.Inside.Stop, LastCheckpoint: p.Inside.Checkpoints, DueAt: p.Inside.DueSince}
	h.Row.Secret = p.Secret
	h.Row.Tenant, _ = cairn.SplitTenant(id)
	in.heads = append(in.heads, h)
	h.RootAgent = in.heads[0].Row.Agent
	in.state, in.messages, in.queued, in.staged = p.Inside.FirstState, 0, 0, 0
	if p.Log != nil {
		in.name = p.Row.Log()
		in.log.First, in.log.Last = p.Log.First, p.Log.Last
		if in.there, _, err = in.st.log.look(ctx, in.name); err != nil {
			return err
		}
		if in.there.Last > 0 {
			return driver.LogExists(in.name)
		}
	}
	in.log.fence(driver.Writer{Session: id, Token: h.Row.Lease.Token}, 0)
	owner := ofSession(id)
	r := &request{If: []condition{{owner, headKey, 0}}, Clear: [][3]string{{owner, "", behind}}, Put: [][3]string{{owner, importKey, ""}}}
	if p.Log != nil {
		r.Clear = append(r.Clear, [3]string{ofLog(in.name), "batch/", after("batch")})
	}
	refused, version, err := in.link.write(ctx, fixed(r))
	if err == nil && refused != nil {
		err = cairn.Errorf(cairn.ErrExists, "session %q already exists", id)
	}
	in.versions = append(in.versions, version)
	in.rows.owner = owner
	return err
}

// add adds a part to the rows of its session.
func (in *arrival) add(p *driver.Part) {
	r := in.rows
	h := in.heads[len(in.heads)-1]
	for i := range p.States {
		piece, err := plan.PieceOf(in.state, &p.States[i])
		if err != nil {
			r.err = errors.Join(r.err, err)
			return
		}
		r.text(r.owner, numbered("state", in.state), encodePiece(piece))
		in.state++
	}
	for i := range p.Messages {
		r.put(r.owner, numbered("message", int64(in.messages)), "message", &p.Messages[i])
		in.messages++
	}
	for i := range p.Runs {
		run := &p.Runs[i]
		key := numbered("turn", int64(run.Turn))
		r.put(r.owner, key, "run", run)
		r.text(r.owner, "run/"+run.ID, key)
	}
	for i := range p.Checkpoints {
		r.checkpoint(&p.Checkpoints[i])
	}
	for i := range p.Calls {
		call := p.Calls[i]
		call.Tenant = h.Row.Tenant
		r.put(r.owner, "call/"+call.ID, "call", &call)
		in.calls = append(in.calls, call)
	}
	for i := range p.Queue {
		in.queued++
		r.put(r.owner, numbered("queue", in.queued), "queued turn", &p.Queue[i])
	}
	for i := range p.Staged {
		in.staged++
		r.put(r.owner, stagedKey(&p.Staged[i]), "staged piece", stagedPiece{in.staged, p.Staged[i]})
	}
	for i := range p.Cache {
		r.put(r.owner, "cache/"+p.Cache[i].Key, "cache entry", &p.Cache[i])
	}
	if len(p.Events) > 0 {
		text, err := encodeBatch(p.Events)
		r.err = errors.Join(r.err, err)
		r.text(ofLog(in.name), numbered("batch", p.Events[0].Sequence), text)
	}
}

// flush writes the rows that were added if they have more than a number of bytes.
func (in *arrival) flush(ctx context.Context, over int) error {
	size := 0
	for _, row := range in.rows.Put {
		size += len(row[2])
	}
	if in.rows.err != nil || len(in.rows.Put) == 0 || size <= over {
		return in.rows.err
	}
	owner := in.rows.owner
	r := &in.rows.request
	r.If = []condition{{owner, headKey, 0}, {owner, importKey, in.versions[len(in.versions)-1]}}
	refused, _, err := in.link.write(ctx, fixed(r))
	if err == nil && refused != nil {
		err = in.crossed()
	}
	in.rows = &rows{owner: owner}
	return err
}

// crossed is the error of an import during which one of its sessions was created.
func (in *arrival) crossed() error {
	return cairn.Errorf(cairn.ErrExists, "session %q already exists", in.root)
}

// finish makes the tree visible.
func (in *arrival) finish(ctx context.Context) error {
	s := in.st
	refused, version, err := in.link.write(ctx, func(at time.Time) (*request, error) {
		r := &rows{at: at}
		list := make([]*cairn.Session, len(in.heads))
		for i, h := range in.heads {
			list[i] = &h.Row
		}
		next := life{SweepAt: driver.SweepAt(at, list[0], list[1:]...)}
		in.heads[0].SweepAt = next.SweepAt
		r.expect(ofTree, "life", 0)
		r.expect(ofTree, "route", 0)
		r.life(in.root, &next, &life{})
		for i, h := range in.heads {
			r.owner = ofSession(h.Row.ID)
			r.expect(r.owner, headKey, 0)
			r.expect(r.owner, importKey, in.versions[i])
			r.Clear = append(r.Clear, only(r.owner, importKey))
			r.head(h)
			r.stop(h.Row.ID, nil, h.Stop)
			r.text(ofTree, "member/"+h.Row.ID, "")
		}
		r.text(ofTree, "members", "")
		for i := range in.calls {
			call := &in.calls[i]
			r.expect(ofTree, "call/"+call.ID, 0)
			r.put(ofTree, "call/"+call.ID, "place of a call", callPlace{Session: call.SessionID, Version: call.Version, CreatedAt: call.CreatedAt})
			text, err := backend.EncodeJSON("call", call)
			if err != nil {
				return nil, err
			}
			r.Share = append(r.Share, shareCall(call, text))
		}
		if in.log.Last > 0 {
			in.log.due(r, in.name, at)
		}
		r.expect(ofLog(in.name), logKey, in.there.version)
		r.put(ofLog(in.name), logKey, "log", &in.log)
		r.Wake = []string{ofLog(in.name)}
		return &r.request, r.err
	})
	s.log.forget(in.name)
	for _, h := range in.heads {
		s.known.Drop(h.Row.ID)
		if h.Row.ID != in.root {
			s.routes.put(h.Row.ID, in.root)
		}
	}
	switch {
	case err != nil:
		return err
	case refused != nil:
		return in.crossed()
	}
	in.log.version = version
	s.log.hub.Wake(in.name)
	return nil
}
