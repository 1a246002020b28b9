package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/compose"
	"github.com/cairn-agents/cairn/store"
)

var (
	scriptCommit = about("commit", "commit")
	scriptClaim  = writer("claim", "commit")
)

// plan is what commit.lua is told to do: arguments for what nearly every commit has, rare for the rest, and the texts that
// go with both.
type plan struct {
	args [14]any // all but the session's id
	rare rarePlan
	// anyRare says that there is something in rare.
	anyRare bool
	texts   []any
}

// rarePlan is the part of a plan that most commits do without.
type rarePlan struct {
	// Attempt names a commit that has neither a step nor a run to be known by, should it be sent twice.
	Attempt string `json:"attempt,omitempty"`
	New     bool   `json:"new,omitempty"`
	Idle    bool   `json:"idle,omitempty"`
	Lapsed  bool   `json:"lapsed,omitempty"`
	Agent   string `json:"agent,omitempty"`

	// Create is the base of a new row.
	Create map[string]any `json:"create,omitempty"`
	// Home is the bucket of the session's root, if there are several: only there it may be created.
	Home string `json:"home,omitempty"`

	Finish    *planRun           `json:"finish,omitempty"`
	Start     *planRun           `json:"start,omitempty"`
	Rewind    string             `json:"rewind,omitempty"`
	RewindRun string             `json:"rewind_run,omitempty"`
	Dated     []bool             `json:"dated,omitempty"` // the messages that have a time of their own
	Recovered bool               `json:"recovered,omitempty"`
	Custom    map[string]float64 `json:"custom,omitempty"` // usage
	Owner     *string            `json:"owner,omitempty"`
	Suspend   *planSuspend       `json:"suspend,omitempty"`
	Calls     []planCall         `json:"calls,omitempty"`
	Enqueue   *string            `json:"enqueue,omitempty"`
	Dequeue   string             `json:"dequeue,omitempty"`
	Cache     []string           `json:"cache,omitempty"`
	CacheDrop []string           `json:"cache_drop,omitempty"`
	Context   *planContext       `json:"context,omitempty"`
}

type planRun struct {
	ID       string `json:"id"`
	Over     bool   `json:"over,omitempty"`
	Sequence int64  `json:"sequence"`
}

type planSuspend struct {
	Step     string `json:"step"`
	Open     int    `json:"open"`
	Deadline int64  `json:"deadline"`
	In       int64  `json:"in,omitempty"` // the microseconds to a deadline
}

type planCall struct {
	ID      string   `json:"id"`
	Seen    int64    `json:"seen"`
	Step    string   `json:"step"`
	Indexes []string `json:"indexes"`
	// Deadline is 0 for none; In, if there is one, is how many microseconds it is to one.
	Deadline int64 `json:"deadline"`
	In       int64 `json:"in,omitempty"`
}

type planContext struct {
	User     *string           `json:"user,omitempty"`
	Tags     *string           `json:"tags,omitempty"`
	Expires  *int64            `json:"expires,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if r := s.known.get(id); r != nil && r.step(c) {
		row, done, err := s.step(ctx, id, c, r)
		if done || err != nil {
			return row, err
		}
		s.known.forget(id)
	}
	p, err := s.plan(id, c)
	if err != nil {
		return nil, err
	}
	return s.commit(ctx, id, c, p)
}

// commit carries out a plan.
func (s *Store) commit(ctx context.Context, id string, c *store.Commit, p *plan) (*cairn.Session, error) {
	if p.rare.Create == nil || len(s.buckets) == 1 {
		return s.send(ctx, id, c, p)
	}
	home := s.bucketOf(p.rare.Create["root"].(string))
	p.rare.Home = s.buckets[home]
	if _, known := s.routes.get(id); !known && home != s.bucketOf(id) {
		if err := s.claim(ctx, id, home, false); err != nil {
			return nil, err
		}
	}
	row, err := s.send(ctx, id, c, p)
	if missing := (*cairn.Error)(nil); errors.As(err, &missing) && missing.Code == cairn.CodeNotFound && missing.Field == "session" {
		// The note of where it is tells of a session that was never made, or is no more.
		if err = s.claim(ctx, id, home, true); err == nil {
			row, err = s.send(ctx, id, c, p)
		}
	}
	return row, err
}

// send has the server carry out a plan.
func (s *Store) send(ctx context.Context, id string, c *store.Commit, p *plan) (*cairn.Session, error) {
	rare := ""
	if p.anyRare {
		var err error
		if rare, err = encode("commit", &p.rare); err != nil {
			return nil, err
		}
	}
	p.args[13] = rare
	r, err := s.ask(ctx, scriptCommit, id, append(p.args[:], p.texts...)...)
	if err != nil {
		return nil, err
	}
	rec, err := readRecord(id, r.list(1))
	if err != nil {
		return nil, err
	}
	row := rec.session
	switch r.word() {
	case "ok":
		s.known.put(rec)
		return row, nil
	case "guard":
		now, _ := strconv.ParseInt(r.text(2), 10, 64)
		if err := c.Guard.Check(row, fromMicros(now)); err != nil {
			return nil, err
		}
	case "checkpoint":
		return nil, store.UnknownCheckpoint(id, r.text(2))
	case "run":
		return nil, store.UnknownRun(id, r.text(2))
	case "gone":
		return nil, store.RunGone(row, r.text(2))
	case "call":
		return nil, store.CallConflict(row, r.text(2))
	case "turn":
		return nil, store.Conflict(cairn.CodeStale, row, "session %q has no queued turn %q", id, r.text(2))
	case "taken":
		return nil, cairn.Invalid("checkpoint", "session %q has a checkpoint %q already", id, r.text(2))
	}
	return nil, unknown(scriptCommit, r)
}

// plan encodes everything of a commit that does not depend on the session's row. The texts are in the order in which
// commit.lua takes them.
func (s *Store) plan(id string, c *store.Commit) (*plan, error) {
	p := &plan{texts: make([]any, 0, len(c.Messages)+4)}
	lease := [...]string{store.LeaseTake: "take", store.LeaseRenew: "renew", store.LeaseRelease: "release"}[c.Lease.Action]
	p.args = [14]any{c.Guard.Token, c.Guard.Version, len(c.Messages), c.Step, c.LogSequence, lease, c.Lease.TTL.Microseconds(),
		"", string(c.Status), addedUsage(&c.Usage), "", "", "", ""}
	if cp := c.Checkpoint; cp != nil {
		p.args[10], p.args[11] = "c"+cp.ID, "s"+cp.StepID
	}
	if c.DropStaged {
		p.args[12] = "1"
	}
	p.planRare(c)
	if c.Create != nil {
		if err := p.create(id, c); err != nil {
			return nil, err
		}
	}
	if err := p.runs(c); err != nil {
		return nil, err
	}
	if err := p.messages(c.Messages); err != nil {
		return nil, err
	}
	if err := p.state(c.State); err != nil {
		return nil, err
	}
	if err := p.calls(c.Calls); err != nil {
		return nil, err
	}
	if cp := c.Checkpoint; cp != nil {
		if err := p.text("checkpoint", checkpointData{RunID: cp.RunID, StepID: cp.StepID, Step: cp.Step, LogSequence: cp.LogSequence}); err != nil {
			return nil, err
		}
	}
	if c.Enqueue != nil {
		p.rare.Enqueue = &c.Enqueue.ID
		if err := p.text("queued turn", c.Enqueue.Messages); err != nil {
			return nil, err
		}
	}
	for i := range c.Cache {
		p.rare.Cache = append(p.rare.Cache, c.Cache[i].Key)
		if err := p.text("cached result", &c.Cache[i]); err != nil {
			return nil, err
		}
	}
	return p, p.context(c.Context)
}

// planRare plans what most commits do without, and finds out whether there is any of it.
func (p *plan) planRare(c *store.Commit) {
	r, g := &p.rare, &c.Guard
	r.New, r.Idle, r.Lapsed, r.Agent = g.New, g.Idle, g.Lapsed, g.Agent
	r.Rewind, r.RewindRun, r.Recovered, r.Custom = c.Rewind, c.RewindRun, c.Recovered, c.Usage.Custom
	r.Dequeue, r.CacheDrop = c.Dequeue, c.CacheDrop
	if c.StartRun == nil && (c.Checkpoint == nil || c.Checkpoint.StepID == "") {
		r.Attempt = rand.Text()
	}
	if c.Lease.Action == store.LeaseTake && c.Lease.Owner != "" {
		r.Owner = &c.Lease.Owner
	}
	if c.Suspend != nil {
		r.Suspend = &planSuspend{Step: c.Suspend.StepID, Open: c.Suspend.OpenCalls, Deadline: micros(c.Suspend.NextDeadline), In: max(c.Suspend.DeadlineIn.Microseconds(), 0)}
	}
	dated := slices.ContainsFunc(c.Messages, func(m cairn.Message) bool { return !m.CreatedAt.IsZero() })
	p.anyRare = *g != store.Guard{Token: g.Token, Version: g.Version} || r.Rewind != "" || r.RewindRun != "" || r.Recovered ||
		len(r.Custom) > 0 || r.Dequeue != "" || len(r.CacheDrop) > 0 || r.Attempt != "" || r.Owner != nil ||
		r.Suspend != nil || dated || c.Create != nil || c.EndRun != nil || c.StartRun != nil || len(c.Calls) > 0 ||
		c.Enqueue != nil || len(c.Cache) > 0 || c.Context != nil
}

// text adds the JSON of a value.
func (p *plan) text(what string, v any) error {
	text, err := encode(what, v)
	p.texts = append(p.texts, text)
	return err
}

// create plans a session that may be new.
func (p *plan) create(id string, c *store.Commit) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	initial := c.InitialState
	if len(initial) == 0 {
		initial = json.RawMessage("{}")
	}
	p.texts = append(p.texts, string(initial))
	row := c.NewRow(id, time.Time{})
	p.rare.Create = map[string]any{"root": row.RootID, "secret": row.Secret, "agent": row.Agent}
	for name, value := range map[string]string{"user": row.UserID, "trace": row.TraceParent, "parent": row.ParentID, "name": row.Name,
		"incarnation": row.Incarnation, "kind": string(row.Kind)} {
		if value != "" {
			p.rare.Create[name] = value
		}
	}
	if at := micros(row.ExpiresAt); at != 0 {
		p.rare.Create["expires"] = at
	}
	if row.TTL > 0 {
		p.rare.Create["ttl"] = row.TTL.Microseconds()
	}
	for name, value := range map[string]any{"tags": row.Tags, "metadata": row.Metadata} {
		if len(row.Tags) > 0 && name == "tags" || len(row.Metadata) > 0 && name == "metadata" {
			text, err := encode(name, value)
			if err != nil {
				return err
			}
			p.rare.Create[name] = text
		}
	}
	return nil
}

// runs plans the end and the start of runs.
func (p *plan) runs(c *store.Commit) error {
	if run := c.EndRun; run != nil {
		p.rare.Finish = &planRun{ID: run.ID, Over: run.Status != cairn.RunRunning}
		if err := p.text("run", run); err != nil {
			return err
		}
	}
	if run := c.StartRun; run != nil {
		p.rare.Start = &planRun{ID: run.ID, Sequence: run.StartSequence}
		return p.text("run", run)
	}
	return nil
}

func (p *plan) messages(list []cairn.Message) error {
	for i := range list {
		text, err := compose.MessageText(&list[i])
		if err != nil {
			return err
		}
		p.texts = append(p.texts, text)
		if !list[i].CreatedAt.IsZero() && p.rare.Dated == nil {
			p.rare.Dated = make([]bool, len(list))
		}
		if p.rare.Dated != nil {
			p.rare.Dated[i] = !list[i].CreatedAt.IsZero()
		}
	}
	return nil
}

func (p *plan) state(change *store.StateChange) error {
	text, kind, err := encodeChange(change)
	if p.args[7] = kind; kind != "" {
		p.texts = append(p.texts, text)
	}
	return err
}

// encodeChange returns a change of state as it is stored, and whether it is a keyframe or a change; both are empty for none.
func encodeChange(change *store.StateChange) (text, kind string, err error) {
	switch {
	case change == nil:
		return "", "", nil
	case change.Keyframe != nil:
		return string(change.Keyframe), "keyframe", nil
	}
	raw, err := json.Marshal(change.Ops)
	if err != nil {
		return "", "", cairn.Errorf(cairn.CodeState, "state: %w", err)
	}
	return string(raw), "change", nil
}

func (p *plan) context(change *store.ContextChange) error {
	if change == nil {
		return nil
	}
	p.rare.Context = &planContext{User: change.UserID, Metadata: change.Metadata}
	if change.Tags != nil {
		text := ""
		if len(*change.Tags) > 0 {
			var err error
			if text, err = encode("tags", slices.Clone(*change.Tags)); err != nil {
				return err
			}
		}
		p.rare.Context.Tags = &text
	}
	if change.ExpiresAt != nil {
		p.rare.Context.Expires = new(micros(*change.ExpiresAt))
	}
	return nil
}

// claim notes, on a cluster, the bucket of a session that is to be created, so that it is found by its id. If the note
// tells of another bucket already, it is changed only if anew is set.
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
