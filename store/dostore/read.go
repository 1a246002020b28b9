package dostore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// stagedPiece is a staged piece with its place among those of one write.
type stagedPiece struct {
	Number int `json:"number"`
	driver.Staged
}

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	for {
		c, err := s.read(ctx, id, want)
		if !errors.Is(err, errMoved) {
			return c, err
		}
	}
}

func (s *Store) read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	owner := ofSession(id)
	var asks []ask
	add := func(when bool, a ask) int {
		if !when {
			return -1
		}
		asks = append(asks, a)
		return len(asks) // the head comes first
	}
	messages := -1
	if want.Messages && !want.Recent {
		messages = add(true, messagesFrom(owner, max(want.From, 0), want.Limit))
	}
	checkpoint := add(want.Checkpoint != "", via(owner, "named/"+want.Checkpoint))
	run := add(want.Run != "", via(owner, "run/"+want.Run))
	state := add(want.State && want.Checkpoint == "", stateAt(owner, -1))
	staged := add(want.Staged, every(owner, "staged"))
	calls := add(want.Calls, every(owner, "call"))
	cache := add(want.Cache, every(owner, "cache"))
	queue := add(want.Queue, every(owner, "queue"))
	f, err := s.open(ctx, id, asks...)
	if err != nil {
		return nil, err
	}
	c := &driver.Contents{Session: backend.CopyRow(&f.head.Row), Stop: backend.StopOf(f.head.Row.RunID, f.head.Stop)}
	s.remember(f.known)
	read := reader{id: id, a: f.a, want: want, c: c}
	read.named(checkpoint, run)
	read.state(state)
	read.staged(staged)
	read.calls(calls)
	if cache > 0 && read.err == nil {
		c.Cache, read.err = allOf[driver.CacheEntry]("cache entry", f.a, cache)
		slices.SortFunc(c.Cache, func(a, b driver.CacheEntry) int { return cmp.Compare(a.Key, b.Key) })
	}
	if queue > 0 && read.err == nil {
		c.Queue, read.err = allOf[driver.QueuedTurn]("queued turn", f.a, queue)
	}
	read.messages(messages)
	if read.err == nil {
		read.err = s.readLater(ctx, f, &read)
	}
	if read.err != nil {
		return nil, read.err
	}
	return c, nil
}

func messagesFrom(owner string, from, limit int) ask {
	a := scan(owner, numbered("message", int64(from)), after("message"))
	a.Limit = max(limit, 0)
	return a
}

// readLater reads what depends on the row or the checkpoint that was read.
func (s *Store) readLater(ctx context.Context, f *found, r *reader) error {
	owner := ofSession(r.id)
	var asks []ask
	messages, state := -1, -1
	if r.want.Messages && r.want.Recent {
		asks = append(asks, messagesFrom(owner, r.want.First(&f.head.Row), r.want.Limit))
		messages = len(asks)
	}
	if r.want.State && r.c.Checkpoint != nil {
		asks = append(asks, stateAt(owner, r.c.Checkpoint.StatePosition))
		state = len(asks)
	}
	if len(asks) == 0 {
		return nil
	}
	a, err := f.again(ctx, r.id, asks...)
	if err != nil {
		return err
	}
	r.a = a
	r.messages(messages)
	r.state(state)
	return r.err
}

// reader takes the contents of a session from an answer. Its first error stays.
type reader struct {
	id   string
	a    *answer
	want driver.Want
	c    *driver.Contents
	err  error
}

func (r *reader) messages(i int) {
	if i > 0 && r.err == nil {
		r.c.Messages, r.err = allOf[cairn.Message]("message", r.a, i)
	}
}

func (r *reader) named(checkpoint, run int) {
	if checkpoint > 0 && r.err == nil {
		var found *row
		if found, r.err = r.a.one(checkpoint); r.err == nil {
			r.c.Checkpoint, r.err = rowOf[cairn.Checkpoint]("checkpoint", found)
		}
		if r.err == nil && r.c.Checkpoint == nil {
			r.err = driver.UnknownCheckpoint(r.id, r.want.Checkpoint)
		}
	}
	if run > 0 && r.err == nil {
		var found *row
		if found, r.err = r.a.one(run); r.err == nil {
			r.c.Run, r.err = rowOf[cairn.Run]("run", found)
		}
		if r.err == nil && r.c.Run == nil {
			r.err = driver.UnknownRun(r.id, r.want.Run)
		}
	}
}

func (r *reader) state(i int) {
	if i <= 0 || r.err != nil {
		return
	}
	var list []row
	if list, r.err = r.a.all(i); r.err == nil {
		r.c.State, r.err = foldState(r.id, list)
	}
}

// foldState returns the state of a session that results from its pieces, newest first.
func foldState(id string, list []row) (json.RawMessage, error) {
	var changes [][]cairn.Op
	for i := range list {
		p, err := decodePiece(&list[i])
		if err != nil {
			return nil, err
		}
		if p.Keyframe {
			slices.Reverse(changes)
			if len(changes) == 0 {
				return p.Data, nil
			}
			return driver.FoldState(p.Data, changes)
		}
		list, err := p.Changes()
		if err != nil {
			return nil, err
		}
		changes = append(changes, list)
	}
	return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q is stored without a whole state", id)
}

func (r *reader) staged(i int) {
	if i <= 0 || r.err != nil {
		return
	}
	var list []row
	if list, r.err = r.a.all(i); r.err != nil {
		return
	}
	type placed struct {
		at int64
		stagedPiece
	}
	pieces := make([]placed, len(list))
	for i := range list {
		pieces[i].at = list[i].version
		if r.err = backend.DecodeJSON("staged piece", list[i].value, &pieces[i].stagedPiece); r.err != nil {
			return
		}
	}
	slices.SortFunc(pieces, func(a, b placed) int { return cmp.Or(cmp.Compare(a.at, b.at), a.Number-b.Number) })
	for _, p := range pieces {
		if r.want.StagedStep == "" || p.StepID == r.want.StagedStep {
			r.c.Staged = append(r.c.Staged, p.Staged)
		}
	}
}

func (r *reader) calls(i int) {
	if i <= 0 || r.err != nil {
		return
	}
	var list []cairn.PendingCall
	if list, r.err = allOf[cairn.PendingCall]("call", r.a, i); r.err != nil {
		return
	}
	step := r.c.Session.SuspendedStep
	r.c.Calls = slices.DeleteFunc(list, func(c cairn.PendingCall) bool { return step == "" || c.StepID != step })
	slices.SortFunc(r.c.Calls, func(a, b cairn.PendingCall) int { return driver.CompareCalls(&a, &b) })
	if len(r.c.Calls) == 0 {
		r.c.Calls = nil
	}
}

// Runs implements driver.Store.
func (s *Store) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return page(ctx, s, id, "turn", "run", q, func(r *cairn.Run) int64 { return int64(r.Turn) })
}

// Checkpoints implements driver.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return page(ctx, s, id, "checkpoint", "checkpoint", q, func(c *cairn.Checkpoint) int64 { return c.Number })
}

// page reads a page of numbered rows.
func page[T any](ctx context.Context, s *Store, id, kind, what string, q driver.PageQuery, number func(*T) int64) (out driver.Page[T], err error) {
	last, err := backend.NumberCursor(q)
	if err != nil {
		return out, err
	}
	a := every(ofSession(id), kind)
	a.Newest, a.Limit = q.Newest, q.Size()+1
	if q.Cursor != "" && q.Newest {
		a.Of[2] = numbered(kind, max(last, 0))
	} else if q.Cursor != "" {
		a.Of[1] = numbered(kind, max(last, -1)+1)
	}
	f, err := s.open(ctx, id, a)
	if err != nil {
		return out, err
	}
	if out.Items, err = allOf[T](what, f.a, 1); err != nil {
		return out, err
	}
	if n := q.Size(); len(out.Items) > n {
		out.Items = out.Items[:n]
		out.Next = strconv.FormatInt(number(&out.Items[n-1]), 10)
	}
	return out, nil
}
