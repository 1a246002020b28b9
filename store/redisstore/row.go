package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// storedRow is a session's row with what the store keeps in it for its own use.
type storedRow struct {
	session            *cairn.Session
	frame, checkpoints int64
	kind               string
	turns              int64
	first              int64     // the position of the oldest piece of state
	boxedAt            time.Time // of the events in the outbox that have no time
	stop               *cairn.Stop
	since              string    // creation time in the store; distinguishes the session from earlier ones with its id
	keys               *stepKeys // nil before the first step
}

// version appends the row's version as it is stored.
func (r *storedRow) version(to []byte) []byte {
	return append(append(strconv.AppendInt(to, r.session.Version, 10), ' '), r.since...)
}

// readRow decodes a session's row as the scripts return it.
func readRow(id string, stored []any) (*cairn.Session, error) {
	r, err := readStored(id, stored)
	if err != nil {
		return nil, err
	}
	return r.session, nil
}

func readStored(id string, stored []any) (*storedRow, error) {
	r := &storedRow{session: &cairn.Session{ID: id}}
	r.session.Tenant, _ = cairn.SplitTenant(id)
	list := reply(stored)
	for i := range 2 {
		if err := r.readFields(list.text(i)); err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: decode stored row: %w", id, err)
		}
	}
	r.date(r.boxedAt)
	if list.text(0) == "" { // no such session
		return r, nil
	}
	var version string
	version, r.since, _ = strings.Cut(list.text(2), " ")
	var numbers [3]int64
	for i, text := range [...]string{version, list.text(3), list.text(4)} {
		var err error
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: decode stored row: %w", id, err)
		}
	}
	r.session.Version, r.session.UpdatedAt, r.session.Lease.Until = numbers[0], fromMicros(numbers[1]), fromMicros(numbers[2])
	r.first, _ = strconv.ParseInt(list.text(6), 10, 64)
	if text := list.text(5); text != "" {
		stop, err := readStop(text)
		if err != nil {
			return nil, err
		}
		r.stop = backend.StopOf(r.session.RunID, stop)
	}
	if now, err := strconv.ParseInt(list.text(8), 10, 64); err == nil {
		r.session.AsOf = fromMicros(now)
	}
	if ttl, err := strconv.ParseInt(list.text(9), 10, 64); err == nil {
		r.session.Lease.TTL = cairn.Duration(ttl) * cairn.Duration(time.Microsecond)
	}
	return r, nil
}

func (r *storedRow) readFields(packed string) error {
	u := unpacker{data: packed}
	for range u.pairs() {
		field := u.text()
		r.readField(field, &u)
		if u.err != nil {
			return fmt.Errorf("field %q: %w", field, u.err)
		}
	}
	return u.err
}

func (r *storedRow) readField(field string, u *unpacker) {
	s := r.session
	switch field {
	case "agent":
		s.Agent = u.text()
	case "user":
		s.UserID = u.text()
	case "title":
		s.Title = u.text()
	case "opening":
		s.Opening = u.text()
	case "opening_at":
		s.OpeningAt = int(u.int64())
	case "tags":
		u.json(&s.Tags)
	case "metadata":
		u.json(&s.Metadata)
	case "expires":
		s.ExpiresAt = u.time()
	case "archived":
		s.ArchivedAt = u.time()
	case "ttl":
		s.TTL = cairn.Duration(u.int64()) * cairn.Duration(time.Microsecond)
	case "trace":
		s.TraceParent = u.text()
	case "depth":
		s.Depth = int(u.int64())
	case "thread":
		s.ThreadID = u.text()
	case "parent":
		s.ParentID = u.text()
	case "root":
		s.RootID = u.text()
	case "incarnation":
		s.Incarnation = u.text()
	case "kind":
		s.Kind = cairn.ChildKind(u.text())
	case "name":
		s.Name = u.text()
	case "branch":
		u.json(&s.Branch)
	case "secret":
		s.Secret = u.text()
	case "created":
		s.CreatedAt = u.time()
	default:
		r.readHead(field, u)
	}
}

// readHead reads a field that commits change.
func (r *storedRow) readHead(field string, u *unpacker) {
	s := r.session
	switch field {
	case "frame":
		r.frame = u.int64()
	case "checkpoints":
		r.checkpoints = u.int64()
	case "due_kind":
		r.kind = u.text()
	case "turns":
		r.turns = u.int64()
	case "status":
		s.Status = cairn.SessionStatus(u.text())
	case "epoch":
		s.Epoch = u.int64()
	case "messages":
		s.MessageCount = int(u.int64())
	case "summary_at":
		s.Summary.At = int(u.int64())
	case "summary_from":
		s.Summary.From = int(u.int64())
	case "trust":
		u.json(&s.TrustAt)
		plan.SetTrust(s, s.TrustAt)
	case "run":
		s.RunID = u.text()
	case "turn":
		s.Turn = int(u.int64())
	case "step":
		s.Step = int(u.int64())
	case "recoveries":
		s.Recoveries = int(u.int64())
	case "checkpoint":
		s.CheckpointID = u.text()
	case "log":
		s.LogSequence = u.int64()
	case "owner":
		s.Lease.Owner = u.text()
	case "token":
		s.Lease.Token = u.int64()
	case "position":
		s.State.Position = u.int64()
	case "keyframe":
		s.State.KeyframeBytes = u.int64()
	case "changes":
		s.State.ChangeBytes = u.int64()
	case "suspended":
		s.SuspendedStep = u.text()
	case "open":
		s.OpenCalls = int(u.int64())
	case "deadline":
		s.NextDeadline = u.time()
	case "queued":
		s.Queued = int(u.int64())
	case "ending":
		u.json(&s.Ending)
	case "outbox":
		u.json(&s.Outbox)
	case "outbox_at":
		r.boxedAt = u.time()
	default:
		readUsage(s, field, u)
	}
}

// readUsage reads a field of a usage: u:NAME is of all the session's runs, r:NAME of the latest one. For what tools
// recorded, NAME is custom:KEY.
func readUsage(s *cairn.Session, field string, u *unpacker) {
	usage := &s.Usage
	name, ok := strings.CutPrefix(field, "u:")
	if !ok {
		if name, ok = strings.CutPrefix(field, "r:"); !ok {
			u.skip()
			return
		}
		usage = &s.RunUsage
	}
	if custom, ok := strings.CutPrefix(name, "custom:"); ok {
		if usage.Custom == nil {
			usage.Custom = map[string]float64{}
		}
		usage.Custom[custom] = u.float64()
		return
	}
	for i := range counters {
		if counters[i].name == name {
			*counters[i].of(usage) = u.int64()
			return
		}
	}
	u.skip()
}

// head appends the row's head. Zero values are left out, except for the fields that come first. The map's size includes
// open more fields, which a script adds; the log's sequence is one of them if places is true.
func (r *storedRow) head(to []byte, open int, places bool) []byte {
	s := r.session
	p := newPacker(to)
	p.n = open
	p.text("status", string(s.Status))
	p.int64("messages", int64(s.MessageCount))
	p.int64("position", s.State.Position)
	p.int64("frame", r.frame)
	p.int64("keyframe", s.State.KeyframeBytes)
	p.int64("changes", s.State.ChangeBytes)
	p.int64("checkpoints", r.checkpoints)
	p.int64("turn", int64(s.Turn))
	p.int64("step", int64(s.Step))
	if places {
		p.n++
	} else {
		p.int64("log", s.LogSequence)
	}
	p.int64("token", s.Lease.Token)
	p.some("epoch", s.Epoch)
	p.some("summary_at", int64(s.Summary.At))
	p.some("summary_from", int64(s.Summary.From))
	if s.TrustAt != nil {
		raw, _ := json.Marshal(s.TrustAt)
		p.text("trust", string(raw))
	}
	p.some("recoveries", int64(s.Recoveries))
	p.some("turns", r.turns)
	p.some("queued", int64(s.Queued))
	p.some("deadline", micros(s.NextDeadline))
	if s.SuspendedStep != "" || s.OpenCalls != 0 {
		p.int64("open", int64(s.OpenCalls))
	}
	p.someText("suspended", s.SuspendedStep)
	p.someText("run", s.RunID)
	p.someText("checkpoint", s.CheckpointID)
	p.someText("owner", s.Lease.Owner)
	p.someText("due_kind", r.kind)
	if s.Ending != nil {
		raw, _ := json.Marshal(s.Ending)
		p.text("ending", string(raw))
	}
	if s.Outbox != nil {
		raw, _ := json.Marshal(s.Outbox)
		p.text("outbox", string(raw))
	}
	p.usage("u:", &s.Usage)
	p.usage("r:", &s.RunUsage)
	return p.done()
}

// listed returns the indexes that a session is in, except those of due and of expiring sessions.
func listed(s *cairn.Session, archived bool) []string {
	names := []string{"all", "agent:" + s.Agent, "root:" + s.RootID}
	if s.ThreadID != "" {
		names = append(names, "thread:"+s.ThreadID)
	}
	if s.ParentID != "" {
		names = append(names, "parent:"+s.ParentID)
	}
	if s.Tenant != "" {
		names = append(names, "tenant:"+s.Tenant)
	}
	return append(names, ofUser(s, archived)...)
}

// ofUser returns the indexes of its user's sessions that a session is in.
func ofUser(s *cairn.Session, archived bool) []string {
	switch user := s.UserID; {
	case user == "":
		return nil
	case s.ParentID != "":
		return []string{"user:" + user}
	case archived:
		return []string{"user:" + user, "archived:" + user}
	default:
		return []string{"user:" + user, "current:" + user}
	}
}

// gone returns the error for a session whose tree was removed, from a script's answer.
func gone(id string, r reply) error {
	at, err := strconv.ParseInt(r.text(4), 10, 64)
	if err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q: invalid stored time %q of its removal", id, r.text(4))
	}
	return driver.Gone(id, driver.Removed{Key: r.text(1), SessionID: r.text(2), Reason: driver.Removal(r.text(3)),
		RemovedAt: fromMicros(at), Incarnation: r.text(5)})
}

// readStop reads a stop request as it is stored.
func readStop(text string) (*cairn.Stop, error) {
	at, data, ok := stamped(text)
	if !ok {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored stop request has no time")
	}
	stop := &cairn.Stop{}
	if err := backend.DecodeJSON("stop request", data, stop); err != nil {
		return nil, err
	}
	stop.At = at
	return stop, nil
}

// stepKeys are the names of a session's keys, in the order that step.lua expects, and a name that no key has.
type stepKeys struct {
	names   [10]any
	nothing any
}

// The positions of the keys that not every step uses. Three keys of the log follow that of the state.
const (
	stepKeyStaged = 4
	stepKeyUsage  = 5
	stepKeyState  = 6
	stepKeyLog    = 7
)

func newStepKeys(bucket string, row *cairn.Session) *stepKeys {
	k := &stepKeys{nothing: bucket}
	for i, letter := range [...]string{"s", "c", "n", "m", "g"} {
		k.names[i] = bucket + letter + ":" + row.ID
	}
	k.names[stepKeyUsage], k.names[stepKeyState] = bucket+"ul", bucket+"f:"+row.ID
	k.names[stepKeyLog], k.names[stepKeyLog+1], k.names[stepKeyLog+2] = bucket+"l:"+row.Log(), bucket+"e:"+row.Log(), bucket+"i:logs"
	return k
}

// statePlace describes a position of a session's state: the position of the keyframe that it builds on, and the sizes
// in bytes.
type statePlace struct {
	frame, keyframe, changes int64
}

// packBase appends the part of a row that only its creation and its context set. The map's size includes open more
// fields, which a script adds.
func packBase(to []byte, row *cairn.Session, secret string, open int) ([]byte, error) {
	p := newPacker(to)
	p.n = open
	p.text("agent", row.Agent)
	p.text("root", row.RootID)
	p.text("secret", secret)
	p.someText("user", row.UserID)
	p.someText("title", row.Title)
	p.someText("opening", row.Opening)
	p.some("opening_at", int64(row.OpeningAt))
	p.someText("trace", row.TraceParent)
	p.some("depth", int64(row.Depth))
	p.someText("thread", row.ThreadID)
	p.someText("parent", row.ParentID)
	p.someText("kind", string(row.Kind))
	p.someText("name", row.Name)
	p.someText("incarnation", row.Incarnation)
	p.some("expires", micros(row.ExpiresAt))
	p.some("archived", micros(row.ArchivedAt))
	p.some("ttl", time.Duration(row.TTL).Microseconds())
	p.int64("created", micros(row.CreatedAt))
	if len(row.Tags) > 0 {
		text, err := backend.EncodeJSON("tags", row.Tags)
		if err != nil {
			return nil, err
		}
		p.text("tags", text)
	}
	if len(row.Metadata) > 0 {
		text, err := backend.EncodeJSON("metadata", row.Metadata)
		if err != nil {
			return nil, err
		}
		p.text("metadata", text)
	}
	if row.Branch != nil {
		text, err := backend.EncodeJSON("branch", row.Branch)
		if err != nil {
			return nil, err
		}
		p.text("branch", text)
	}
	return p.done(), nil
}
