package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var (
	scriptInside  = about("inside", "look into a session", reads)
	scriptPut     = keyed("put", "import", grows)
	scriptImport  = keyed("import", "import", grows)
	scriptDiscard = keyed("discard", "import", frees)
)

const (
	// importKept is how long the server keeps a part of an import to which nothing is added.
	importKept = time.Hour
	// discardWithin bounds the cleanup after a failed import.
	discardWithin = 5 * time.Second
)

// Inside implements driver.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*driver.Inside, error) {
	r, err := s.ask(ctx, scriptInside, id, from, max(limit, 0))
	if err != nil {
		return nil, err
	}
	rec, err := readStored(id, r.list(1))
	if err != nil {
		return nil, err
	}
	return readInside(rec, r.list(1), r.list(2))
}

// readInside reads what is inside a session from its row, as it is stored, and some of its states.
func readInside(rec *storedRow, list reply, states []any) (in *driver.Inside, err error) {
	in = &driver.Inside{Checkpoints: rec.checkpoints}
	if text := list.text(5); text != "" {
		if in.Stop, err = readStop(text); err != nil {
			return nil, err
		}
	}
	if in.FirstState, err = strconv.ParseInt(list.text(6), 10, 64); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: decode stored row: %w", rec.session.ID, err)
	}
	if driver.DueKindOf(rec.session) != "" {
		due, err := strconv.ParseInt(list.text(7), 10, 64)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: decode stored row: %w", rec.session.ID, err)
		}
		in.DueSince = fromMicros(due)
	}
	for _, item := range states {
		change, err := readChange(plain(item))
		if err != nil {
			return nil, err
		}
		in.States = append(in.States, change)
	}
	return in, nil
}

// readChange decodes an element of a chain of states. A keyframe is an object; a change is a list.
func readChange(text string) (change driver.StateChange, err error) {
	if !strings.HasPrefix(text, "[") {
		change.Keyframe = json.RawMessage(text)
		return change, nil
	}
	return change, backend.DecodeJSON("state change", text, &change.Ops)
}

// Import implements driver.Importer. The parts have names that no reader uses, until one script renames them all. Its
// duration grows with the number of sessions and calls, but not with their history. On a cluster, Import does not
// notice a session that another process creates concurrently in another tree, under the id of one of this tree's
// children.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) (err error) {
	m := &importing{s: s, ctx: ctx, root: root, bucket: s.bucketOf(root), token: rand.Text(), sizes: map[string]int{}}
	defer func() {
		if err != nil {
			m.discard()
		}
	}()
	for part, err := range driver.CheckImport(root, s.opts.MaxEvent, parts) {
		if err == nil {
			err = m.add(part)
		}
		if err != nil {
			return err
		}
	}
	return m.finish()
}

// importing is a tree that is being imported.
type importing struct {
	s        *Store
	ctx      context.Context // of one call
	root     string
	bucket   int
	token    string
	sessions []string
	keys     []string       // in order of creation
	sizes    map[string]int // number of elements by key
	name     string         // of the log
	log      []any          // the fields of the log's hash

	// The session that is being imported.
	part   *driver.SessionPart
	chain  []statePlace // by position, from the first state on
	queued int
	staged int
	texts  plan.Texts
}

// put adds elements to a key.
func (m *importing) put(kind, key string, elements ...any) error {
	if len(elements) == 0 {
		return nil
	}
	n := len(elements)
	if kind != "list" {
		n /= 2
	}
	before, begun := m.sizes[key]
	if !begun {
		m.keys = append(m.keys, key)
	}
	m.sizes[key] = before + n
	args := append([]any{m.token + ":" + key, kind, before, importKept.Milliseconds()}, elements...)
	r, err := m.s.run(m.ctx, scriptPut, m.bucket, args...)
	if err == nil && r.word() != "ok" {
		err = m.lost()
	}
	return err
}

func (m *importing) lost() error {
	return cairn.Errorf(cairn.ErrUnavailable, "import: session %q: the server lost a part after no data was added for %s",
		m.root, importKept)
}

// own adds elements to a key of the current session.
func (m *importing) own(kind, letter string, elements ...any) error {
	return m.put(kind, letter+":"+m.part.Row.ID, elements...)
}

func (m *importing) add(p *driver.Part) error {
	if p.Session != nil {
		if err := m.endSession(); err != nil {
			return err
		}
		if err := m.begin(p.Session); err != nil {
			return err
		}
	}
	for _, add := range []func(*driver.Part) error{m.history, m.runs, m.checkpoints, m.calls, m.waits, m.events} {
		if err := add(p); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a session. It fails if a session in any bucket has the id.
func (m *importing) begin(p *driver.SessionPart) error {
	id := p.Row.ID
	there, err := driver.Load(m.ctx, m.s, id)
	if err == nil {
		return driver.Conflict(cairn.ErrExists, there, "session %q already exists", id)
	}
	if !errors.Is(err, cairn.ErrNotFound) || driver.IsGone(err) {
		return err
	}
	m.sessions = append(m.sessions, id)
	m.part, m.chain, m.queued, m.staged, m.texts = p, nil, 0, 0, plan.Texts{}
	if p.Log != nil {
		m.log = append(m.log, "last", p.Log.Last)
		m.name = p.Row.Log()
	}
	if p.Row.Lease.Token > 0 {
		m.log = append(m.log, "f"+id, p.Row.Lease.Token)
	}
	return nil
}

func (m *importing) history(p *driver.Part) error {
	var states, messages []any
	for i := range p.States {
		piece, err := plan.PieceOf(0, &p.States[i])
		if err != nil {
			return err
		}
		text := []byte(piece.Data)
		states = append(states, text)
		place := statePlace{frame: m.part.Inside.FirstState + int64(len(m.chain)), keyframe: int64(len(text))}
		if !piece.Keyframe {
			place = m.chain[len(m.chain)-1]
			place.changes += int64(len(text))
		}
		m.chain = append(m.chain, place)
	}
	for i := range p.Messages {
		text, err := appendMessage(nil, &p.Messages[i])
		if err != nil {
			return err
		}
		m.texts.Add(&p.Messages[i])
		messages = append(messages, text)
	}
	if err := m.own("list", "f", states...); err != nil {
		return err
	}
	return m.own("list", "m", messages...)
}

// at returns the place of a position of the state that has come.
func (m *importing) at(position int64) statePlace {
	return m.chain[position-m.part.Inside.FirstState]
}

func (m *importing) runs(p *driver.Part) error {
	var ids, fields []any
	for i := range p.Runs {
		run := &p.Runs[i]
		origin := appendOrigin(strconv.AppendInt(nil, micros(run.StartedAt), 10), run)
		data, err := appendEnded(nil, run, m.texts.At(run))
		if err != nil {
			return err
		}
		ids, fields = append(ids, run.ID), append(fields, "o"+run.ID, origin, "d"+run.ID, data)
	}
	if err := m.own("list", "o", ids...); err != nil {
		return err
	}
	return m.own("hash", "r", fields...)
}

func (m *importing) checkpoints(p *driver.Part) error {
	var fields, ids []any
	for i := range p.Checkpoints {
		cp := &p.Checkpoints[i]
		place := m.at(cp.StatePosition)
		record := appendCheckpoint(strconv.AppendInt(nil, micros(cp.CreatedAt), 10), cp, &storedRow{frame: place.frame,
			session: &cairn.Session{State: cairn.StatePosition{KeyframeBytes: place.keyframe, ChangeBytes: place.changes}}})
		fields = append(fields, "c"+cp.ID, record)
		if cp.StepID != "" {
			fields = append(fields, "s"+cp.StepID, "")
		}
		ids = append(ids, cp.ID)
	}
	if err := m.own("hash", "c", fields...); err != nil {
		return err
	}
	return m.own("list", "n", ids...)
}

func (m *importing) calls(p *driver.Part) error {
	var records, steps []any
	for i := range p.Calls {
		call := &p.Calls[i]
		indexes := callIndexes(call)
		head, err := backend.EncodeJSON("call", []any{call.Version, micros(call.CreatedAt), micros(call.UpdatedAt), call.SessionID, call.UserID,
			call.Agent, indexes, micros(call.Deadline)})
		if err != nil {
			return err
		}
		data, err := backend.EncodeCall(call)
		if err != nil {
			return err
		}
		records, steps = append(records, call.ID, head+"\n"+data), append(steps, call.ID, call.StepID)
	}
	if err := m.put("hash", "w:"+m.root, records...); err != nil {
		return err
	}
	return m.own("hash", "k", steps...)
}

func (m *importing) waits(p *driver.Part) error {
	var turns, pieces, cached []any
	for i := range p.Queue {
		data, err := backend.EncodeJSON("queued turn", &p.Queue[i])
		if err != nil {
			return err
		}
		m.queued++
		turns = append(turns, p.Queue[i].ID, fmt.Sprintf("%d:%s", m.queued, data))
	}
	for i := range p.Staged {
		name, err := backend.EncodeJSON("piece", [2]string{p.Staged[i].StepID, p.Staged[i].Key})
		if err != nil {
			return err
		}
		m.staged++
		pieces = append(pieces, name, fmt.Sprintf("%d:%s", m.staged, p.Staged[i].Data))
	}
	for i := range p.Cache {
		data, err := backend.EncodeJSON("cached result", &p.Cache[i])
		if err != nil {
			return err
		}
		cached = append(cached, p.Cache[i].Key, data)
	}
	if err := m.own("hash", "q", turns...); err != nil {
		return err
	}
	if err := m.own("hash", "g", pieces...); err != nil {
		return err
	}
	return m.own("hash", "h", cached...)
}

func (m *importing) events(p *driver.Part) error {
	if len(p.Events) == 0 {
		return nil
	}
	batch, err := backend.EncodeEvents(p.Events)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%d-%d", p.Events[len(p.Events)-1].Sequence, len(p.Events))
	return m.put("stream", "e:"+m.name, id, batch)
}

// endSession adds the row of the current session, all of whose states are known now.
func (m *importing) endSession() error {
	if m.part == nil {
		return nil
	}
	row, inside := &m.part.Row, &m.part.Inside
	r := storedRow{session: row, frame: m.at(row.State.Position).frame, checkpoints: inside.Checkpoints,
		kind: string(driver.DueKindOf(row)), turns: int64(m.queued)}
	due := inside.DueSince
	if row.Status == cairn.SessionActive {
		r.kind, due = string(driver.DueCrashed), row.Lease.Until
	}
	base, err := packBase(nil, row, m.part.Secret, 0)
	if err != nil {
		return err
	}
	stop := ""
	if inside.Stop != nil {
		if stop, err = backend.EncodeJSON("stop request", inside.Stop); err != nil {
			return err
		}
		stop = strconv.FormatInt(micros(inside.Stop.At), 10) + stop
	}
	return m.own("hash", "s", "head", r.head(nil, 0, false), "base", base, "version", row.Version, "updated", micros(row.UpdatedAt),
		"until", micros(row.Lease.Until), "ttl", time.Duration(row.Lease.TTL).Microseconds(), "stop", stop, "first", inside.FirstState, "due", micros(due))
}

// finish makes everything visible at once.
func (m *importing) finish() error {
	if err := m.endSession(); err != nil {
		return err
	}
	if err := m.put("hash", "l:"+m.name, m.log...); err != nil {
		return err
	}
	if err := m.claim(); err != nil {
		return err
	}
	opts := &m.s.opts
	args := []any{m.token, m.root, m.s.eventChannel(m.name), opts.Retention.Milliseconds(), opts.EventRetention.Milliseconds(),
		m.name, len(m.sessions)}
	for _, id := range m.sessions {
		args = append(args, id)
	}
	for _, key := range m.keys {
		args = append(args, key)
	}
	r, err := m.s.run(m.ctx, scriptImport, m.bucket, args...)
	if err != nil {
		return err
	}
	switch r.word() {
	case "removed":
		return gone(m.root, r)
	case "exists":
		there, err := readRow(r.text(2), r.list(1))
		if err != nil {
			return err
		}
		return driver.Conflict(cairn.ErrExists, there, "session %q already exists", r.text(2))
	case "log":
		return driver.LogExists(m.name)
	case "lost":
		return m.lost()
	}
	for _, id := range m.sessions {
		m.s.known.Drop(id)
	}
	m.s.listener.hub.Wake(m.name)
	m.s.listener.published(m.ctx, r.text(1))
	return nil
}

// claim stores, on a cluster, notes of the children's bucket, so that they are found by their ids. The ids have just
// been seen to be free.
func (m *importing) claim() error {
	for _, id := range m.sessions {
		if m.s.bucketOf(id) == m.bucket {
			continue
		}
		if err := m.s.claim(m.ctx, id, m.bucket, true); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the keys of a failed import. Keys that it does not reach expire.
func (m *importing) discard() {
	if len(m.keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), discardWithin)
	defer cancel()
	args := []any{m.token}
	for _, key := range m.keys {
		args = append(args, key)
	}
	m.s.run(ctx, scriptDiscard, m.bucket, args...)
}
