package backend

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Document is a session with everything that it owns, for a store that keeps it in one piece. It is not safe for
// concurrent use. Values that its methods return do not change with the document: rows are copied, and lists are never
// modified in place.
type Document struct {
	Row cairn.Session `json:"row"`
	// Secret is the row's secret, LeaseOwner and LeaseToken belong to its lease. The row's JSON omits them.
	Secret     string `json:"secret"`
	LeaseOwner string `json:"lease_owner,omitempty"`
	LeaseToken int64  `json:"lease_token"`
	// LastCheckpoint is the number of the last checkpoint that the session was ever given.
	LastCheckpoint int64 `json:"last_checkpoint,omitempty"`
	// DueAt is the time from which the row's [driver.DueKindOf] applies, and SweepAt the time from which a root may have
	// expired; zero for never.
	DueAt   time.Time   `json:"due_at,omitzero"`
	SweepAt time.Time   `json:"sweep_at,omitzero"`
	Stop    *cairn.Stop `json:"stop,omitempty"`

	Messages []cairn.Message `json:"messages,omitempty"`
	// States are ordered by position, without gaps; the first one is a keyframe.
	States      []plan.StatePiece             `json:"states"`
	Runs        []cairn.Run                   `json:"runs,omitempty"`        // by turn
	Checkpoints []cairn.Checkpoint            `json:"checkpoints,omitempty"` // by number
	Staged      []driver.Staged               `json:"staged,omitempty"`
	Calls       map[string]*cairn.PendingCall `json:"calls,omitempty"` // by id
	Queue       []driver.QueuedTurn           `json:"queue,omitempty"`
	Cache       map[string]driver.CacheEntry  `json:"cache,omitempty"` // by key
	steps       map[string]struct{}           // of Checkpoints; nil until needed
	runs        map[string]int                // indexes of Runs by id; nil until needed
}

// Encode returns the document as JSON.
func (doc *Document) Encode() ([]byte, error) {
	doc.Secret, doc.LeaseOwner, doc.LeaseToken = doc.Row.Secret, doc.Row.Lease.Owner, doc.Row.Lease.Token
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "encode session %q: %w", doc.Row.ID, err)
	}
	return raw, nil
}

// Decode reads a document that Encode wrote. Its row gets the store's time now as AsOf.
func Decode(raw []byte, now time.Time) (*Document, error) {
	doc := &Document{}
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "decode stored session: %w", err)
	}
	if len(doc.States) == 0 || !doc.States[0].Keyframe {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q is stored without its first state", doc.Row.ID)
	}
	doc.Row.Secret, doc.Row.AsOf = doc.Secret, now
	doc.Row.Lease.Owner, doc.Row.Lease.Token = doc.LeaseOwner, doc.LeaseToken
	return doc, nil
}

// Seen returns the input for planning a commit. A nil document means that the session does not exist.
func (doc *Document) Seen(id string) *plan.Seen {
	if doc == nil {
		return &plan.Seen{ID: id, Doubt: true}
	}
	return &plan.Seen{ID: id, Row: doc.row(), Checkpoints: doc.LastCheckpoint, Doubt: true}
}

// Answer reads the data that a plan needs, except pending calls, which may belong to another session of the tree.
func (doc *Document) Answer(n plan.Needs, seen *plan.Seen) {
	if n.Happened {
		_, run := doc.runIndex()[n.RunID]
		seen.Happened = run && n.RunID != "" || doc.hasStep(n.StepID)
	}
	for _, id := range n.Runs {
		if i, ok := doc.runIndex()[id]; ok {
			if seen.Runs == nil {
				seen.Runs = map[string]*cairn.Run{}
			}
			run := doc.Runs[i]
			seen.Runs[id] = &run
		}
	}
	if n.Checkpoint != "" {
		seen.Checkpoint = doc.checkpoint(n.Checkpoint)
	}
	if n.State && n.Position >= doc.States[0].Position && n.Position <= doc.Row.State.Position {
		at := doc.sizes(n.Position)
		seen.State = &at
	}
	if n.Queue {
		for i := range doc.Queue {
			seen.Queue = append(seen.Queue, doc.Queue[i].ID)
		}
	}
}

// Apply writes a delta whose conditions hold, at the store's time now, and returns the session's new row. A new session
// is written to an empty document.
func (doc *Document) Apply(d *plan.Delta, now time.Time) *cairn.Session {
	row := d.At(now)
	row.Lease.Until = d.LeaseUntil.On(now, doc.Row.Lease.Until)
	if d.LeaseUntil.Kept {
		row.Lease.TTL = doc.Row.Lease.TTL
	}
	if d.New {
		doc.States = []plan.StatePiece{{Keyframe: true, Data: slices.Clone(d.Initial)}}
	}
	if d.Cut != nil {
		doc.cut(d.Cut)
	}
	doc.Row, doc.LastCheckpoint = *row, d.Checkpoints
	doc.DueAt, doc.SweepAt = d.DueAt.On(now, doc.DueAt), d.SweepAt.On(now, doc.SweepAt)
	if doc.Stop != nil && d.DropStop == doc.Stop.RunID {
		doc.Stop = nil
	}
	if doc.Messages == nil && len(d.Messages) > 0 {
		doc.Messages = make([]cairn.Message, 0, max(4, len(d.Messages)))
	}
	doc.Messages = append(doc.Messages, d.Messages...)
	if d.State != nil {
		piece := *d.State
		piece.Data, piece.Ops = slices.Clone(piece.Data), slices.Clone(piece.Ops)
		doc.States = append(doc.States, piece)
	}
	doc.applyHistory(d)
	doc.applyWait(d)
	return row
}

// applyHistory writes the runs and the checkpoint of a delta.
func (doc *Document) applyHistory(d *plan.Delta) {
	if d.EndRun != nil {
		if i, ok := doc.runIndex()[d.EndRun.ID]; ok {
			doc.Runs[i] = *d.Ended(&doc.Runs[i])
		}
	}
	if d.StartRun != nil {
		if doc.runs != nil {
			doc.runs[d.StartRun.ID] = len(doc.Runs)
		}
		doc.Runs = append(doc.Runs, *d.StartRun)
	}
	if d.Checkpoint != nil {
		doc.Checkpoints = append(doc.Checkpoints, *d.Checkpoint)
		if doc.steps != nil {
			doc.steps[d.Checkpoint.StepID] = struct{}{}
		}
	}
}

// applyWait writes the calls, the queue, the cache and the staged pieces of a delta.
func (doc *Document) applyWait(d *plan.Delta) {
	for i := range d.Calls {
		if doc.Calls == nil {
			doc.Calls = map[string]*cairn.PendingCall{}
		}
		id := d.Calls[i].Row.ID
		doc.Calls[id] = d.Calls[i].On(doc.Calls[id])
	}
	if d.Enqueue != nil {
		turn := *d.Enqueue
		turn.Messages = slices.Clone(turn.Messages)
		doc.Queue = append(slices.Clip(doc.Queue), turn)
	}
	if len(d.Dequeue) > 0 {
		doc.Queue = slices.DeleteFunc(slices.Clone(doc.Queue), func(t driver.QueuedTurn) bool { return slices.Contains(d.Dequeue, t.ID) })
	}
	for _, e := range d.Cache {
		if doc.Cache == nil {
			doc.Cache = map[string]driver.CacheEntry{}
		}
		doc.Cache[e.Key] = e
	}
	for _, key := range d.CacheDrop {
		delete(doc.Cache, key)
	}
	if d.DropStaged {
		doc.Staged = nil
	}
}

func (doc *Document) cut(c *plan.Cut) {
	doc.Messages = slices.Clone(doc.Messages[:c.Messages])
	doc.States = slices.Clone(doc.States[:c.State-doc.States[0].Position+1])
	kept := len(doc.Checkpoints)
	for kept > 0 && doc.Checkpoints[kept-1].Number > c.Checkpoint {
		kept--
	}
	doc.Checkpoints, doc.steps = slices.Clone(doc.Checkpoints[:kept]), nil
}

// row returns a copy of the row.
func (doc *Document) row() *cairn.Session {
	row := doc.Row
	return &row
}

func (doc *Document) runIndex() map[string]int {
	if doc.runs == nil {
		doc.runs = make(map[string]int, len(doc.Runs))
		for i := range doc.Runs {
			doc.runs[doc.Runs[i].ID] = i
		}
	}
	return doc.runs
}

func (doc *Document) hasStep(step string) bool {
	if doc.steps == nil {
		doc.steps = make(map[string]struct{}, len(doc.Checkpoints))
		for i := range doc.Checkpoints {
			doc.steps[doc.Checkpoints[i].StepID] = struct{}{}
		}
	}
	_, ok := doc.steps[step]
	return ok && step != ""
}

// checkpoint returns a copy of a checkpoint, or nil.
func (doc *Document) checkpoint(id string) *cairn.Checkpoint {
	for i := len(doc.Checkpoints) - 1; i >= 0; i-- {
		if doc.Checkpoints[i].ID == id {
			cp := doc.Checkpoints[i]
			return &cp
		}
	}
	return nil
}

// keyframe returns the index in States of the keyframe that a position builds on.
func (doc *Document) keyframe(position int64) int {
	i := int(position - doc.States[0].Position)
	for !doc.States[i].Keyframe {
		i--
	}
	return i
}

// sizes computes the sizes of the state at a position.
func (doc *Document) sizes(position int64) cairn.StatePosition {
	k := doc.keyframe(position)
	at := cairn.StatePosition{Position: position, KeyframeBytes: int64(len(doc.States[k].Data))}
	for i := k + 1; i <= int(position-doc.States[0].Position); i++ {
		at.ChangeBytes += int64(len(doc.States[i].Data))
	}
	return at
}
