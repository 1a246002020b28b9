package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var scriptStep = alone("step", "commit")

// mostKnown bounds the rows that a Store remembers.
const mostKnown = 10_000

// known remembers rows as this process's last commits left them. With them a step is worked out here, and the server, which
// runs one script at a time, has little more to do than to compare versions and to write.
type known struct {
	mu   sync.Mutex
	rows map[string]*record
}

func (k *known) get(id string) *record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rows[id]
}

func (k *known) put(r *record) {
	own, row := *r, *r.session // the caller's may change
	own.session = &row
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil || len(k.rows) >= mostKnown && k.rows[row.ID] == nil {
		k.rows = map[string]*record{}
	}
	k.rows[row.ID] = &own
}

func (k *known) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, id)
}

// step reports whether a commit is a step that can be worked out from the row r: it can be known again by its step, its
// guard holds, and it changes nothing but messages, state, numbers and the end of the lease.
func (r *record) step(c *store.Commit) bool {
	g, row := c.Guard, r.session
	return c.Checkpoint != nil && c.Checkpoint.StepID != "" && c.Checkpoint.ID != "" &&
		!g.New && !g.Idle && !g.Lapsed && (g.Agent == "" || g.Agent == row.Agent) &&
		(g.Token == 0 || g.Token == row.Lease.Token) && (g.Version == 0 || g.Version == row.Version) &&
		(c.Lease.Action == store.LeaseKeep || c.Lease.Action == store.LeaseRenew && c.Lease.TTL >= 0) && c.Status == "" &&
		c.StartRun == nil && c.EndRun == nil && c.Rewind == "" && c.RewindRun == "" && c.Suspend == nil && c.Calls == nil &&
		c.Enqueue == nil && c.Dequeue == "" && c.Cache == nil && c.CacheDrop == nil && c.Context == nil &&
		!slices.ContainsFunc(c.Messages, func(m cairn.Message) bool { return !m.CreatedAt.IsZero() })
}

// step commits a step to a session whose row is r. done is false, and nothing has happened, if the server has another row.
func (s *Store) step(ctx context.Context, id string, c *store.Commit, r *record) (row *cairn.Session, done bool, err error) {
	change, _, err := encodeChange(c.State)
	if err != nil {
		return nil, false, err
	}
	after := *r
	var fx store.Effect
	after.session, fx = c.Advance(r.session, time.Time{}, len(change), r.checkpoints)
	after.checkpoints++
	if c.State != nil && c.State.Keyframe != nil {
		after.frame = after.session.State.Position
	}
	before, behind := checkpointRecord(fx.Checkpoint, &after)
	ttl, drop := "", ""
	renews := c.Lease.Action == store.LeaseRenew
	if renews {
		ttl = "+" + strconv.FormatInt(c.Lease.TTL.Microseconds(), 10)
	}
	if c.DropStaged {
		drop = "1"
	}
	cp := fx.Checkpoint
	args := append(make([]any, 0, 14+len(c.Messages)), id, strconv.FormatInt(r.session.Version, 10), ttl, after.head(), change, "s"+cp.StepID,
		"c"+cp.ID, before, behind, cp.Number, cp.ID, strconv.FormatInt(after.session.Version, 10), drop,
		strconv.FormatInt(micros(r.session.CreatedAt), 10))
	for i := range c.Messages {
		text, err := encode("message", &c.Messages[i])
		if err != nil {
			return nil, false, err
		}
		args = append(args, text)
	}
	bucket, _ := s.route(id)
	answer, err := s.answer(ctx, scriptStep, bucket, args...)
	if err != nil {
		return nil, false, err
	}
	text := plain(answer)
	if text == "" {
		return nil, false, nil
	}
	stamp, end, _ := strings.Cut(text, " ")
	now, err := strconv.ParseInt(stamp, 10, 64)
	until := now + c.Lease.TTL.Microseconds()
	if err == nil && !renews {
		until, err = strconv.ParseInt(end, 10, 64)
	}
	if err != nil {
		return nil, false, unknownText(scriptStep, text)
	}
	after.session.UpdatedAt, after.session.Lease.Until = fromMicros(now), fromMicros(until)
	s.known.put(&after)
	return after.session, true, nil
}
