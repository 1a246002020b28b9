package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/compose"
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
	own := &struct {
		record
		row cairn.Session // the caller's may change
	}{*r, *r.session}
	own.session = &own.row
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil || len(k.rows) >= mostKnown && k.rows[own.row.ID] == nil {
		k.rows = map[string]*record{}
	}
	k.rows[own.row.ID] = &own.record
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
	row, fx := c.Advance(r.session, time.Time{}, len(change), r.checkpoints)
	after.session = row
	after.checkpoints++
	if c.State != nil && c.State.Keyframe != nil {
		after.frame = row.State.Position
	}
	if after.keys == nil {
		bucket, _ := s.route(id)
		after.keys = newStepKeys(s.buckets[bucket], id)
	}
	cmd := newStepCommand()
	defer cmd.free()
	if err := cmd.fill(c, r, &after, fx.Checkpoint, change); err != nil {
		return nil, false, err
	}
	answer, err := s.answer(ctx, scriptStep, cmd.list)
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
	if err == nil && c.Lease.Action != store.LeaseRenew {
		until, err = strconv.ParseInt(end, 10, 64)
	}
	if err != nil {
		return nil, false, unknownText(scriptStep, text)
	}
	row.UpdatedAt, row.AsOf, row.Lease.Until = fromMicros(now), fromMicros(now), fromMicros(until)
	s.known.put(&after)
	return row, true, nil
}

// stepKeys are the names of a session's keys in the order in which step.lua knows them, and that of no key.
type stepKeys struct {
	names   [6]any
	nothing any
}

func newStepKeys(bucket, id string) *stepKeys {
	k := &stepKeys{nothing: bucket}
	for i, letter := range [...]string{"s", "c", "n", "m", "g", "f"} {
		k.names[i] = bucket + letter + ":" + id
	}
	return k
}

// stepCommand is the command of one step. It is used again and again, for most of what a step costs this process would be to
// make texts and to clear them away.
type stepCommand struct {
	list  []any
	texts []stepText
	data  []byte // of all texts
}

// stepText is an argument that the client takes as it is.
type stepText []byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (t *stepText) MarshalBinary() ([]byte, error) { return *t, nil }

var stepCommands = sync.Pool{New: func() any { return &stepCommand{} }}

// mostReused bounds the bytes that a command keeps for the next one.
const mostReused = 64 << 10

func newStepCommand() *stepCommand {
	cmd := stepCommands.Get().(*stepCommand)
	cmd.list, cmd.texts, cmd.data = cmd.list[:0], cmd.texts[:0], cmd.data[:0]
	return cmd
}

// free is called when nobody has the command's texts any more.
func (s *stepCommand) free() {
	if cap(s.data) <= mostReused {
		stepCommands.Put(s)
	}
}

// add adds the text that was appended to data.
func (s *stepCommand) add(data []byte) {
	s.texts, s.data = append(s.texts, data[len(s.data):]), data
}

// fill makes the command for the commit c, which leads from one row to another.
func (s *stepCommand) fill(c *store.Commit, before, after *record, cp *cairn.Checkpoint, change string) error {
	s.add(before.version(s.data))
	s.add(after.version(s.data))
	if c.Lease.Action == store.LeaseRenew {
		s.add(strconv.AppendInt(append(s.data, '+'), c.Lease.TTL.Microseconds(), 10))
	} else {
		s.add(s.data)
	}
	s.add(after.head(s.data))
	s.add(strconv.AppendInt(s.data, cp.Number, 10))
	s.add(append(s.data, cp.ID...))
	s.add(appendRecord(s.data, cp, after))
	s.add(append(append(s.data, 's'), cp.StepID...))
	for i := range c.Messages {
		data, err := compose.Message(s.data, &c.Messages[i])
		if err != nil {
			return err
		}
		s.add(data)
	}
	keys := after.keys.names[:5]
	if c.State != nil {
		keys = after.keys.names[:]
		s.add(append(s.data, change...))
	}
	s.list = append(append(s.list, "evalsha", scriptStep.hash, len(keys)), keys...)
	if !c.DropStaged {
		s.list[3+4] = after.keys.nothing
	}
	for i := range s.texts {
		s.list = append(s.list, &s.texts[i])
	}
	return nil
}
