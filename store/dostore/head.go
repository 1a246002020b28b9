package dostore

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

// The rows of a session are those of the owner [ofSession], with these keys. Numbers have leading zeros, so that keys
// have their order.
//
//	head                the row, with all that each commit changes
//	message/INDEX       a message
//	state/POSITION      a piece of state: K and the whole state, or C and the changes
//	turn/TURN           a run
//	run/ID              the key of the run with that id
//	checkpoint/NUMBER   a checkpoint
//	named/ID, step/ID   the key of the checkpoint with that id, or of that step
//	queue/TIME          a queued turn
//	staged/STEP KEY     a staged piece
//	cache/KEY           a cached result
//	call/ID             a pending call
//
// The rows of the owner [ofTree] are these; the first is in the object of a child's id.
//
//	route      the child's root
//	life       the [life] of the tree
//	members    changes with each session that is created or deleted
//	member/ID  a session of the tree
//	call/ID    the [callPlace] of a call
//	blobs      the [blobState]
const (
	headKey = "head"
	ofTree  = "tree"
)

// ofSession returns the owner of a session's rows, ofLog that of the rows of an event log.
func ofSession(id string) string { return "session/" + id }
func ofLog(log string) string    { return "log/" + log }

func numbered(kind string, n int64) string { return fmt.Sprintf("%s/%016d", kind, n) }

// after returns the key behind all keys of a kind.
func after(kind string) string { return kind + "0" } // 0 follows /

// every asks for all rows of a kind.
func every(owner, kind string) ask { return scan(owner, kind+"/", after(kind)) }

// only returns the range that has one key.
func only(owner, key string) [3]string { return [3]string{owner, key, key + "\x00"} }

// head is the row of a session with the data that changes with it.
type head struct {
	Row cairn.Session `json:"row"`
	// The row's JSON omits the secret and two fields of the lease.
	Secret     string `json:"secret"`
	LeaseOwner string `json:"lease_owner,omitempty"`
	LeaseToken int64  `json:"lease_token"`
	// LastCheckpoint is the number of the last checkpoint that the session was ever given.
	LastCheckpoint int64       `json:"last_checkpoint,omitempty"`
	DueAt          time.Time   `json:"due_at,omitzero"`
	SweepAt        time.Time   `json:"sweep_at,omitzero"`
	Stop           *cairn.Stop `json:"stop,omitempty"`
	// RootAgent is the agent of the tree's root.
	RootAgent string `json:"root_agent"`
	// Removal and RemovedAt are set in the directory, for a session of a removed tree.
	Removal   driver.Removal `json:"removal,omitempty"`
	RemovedAt time.Time      `json:"removed_at,omitzero"`
}

// known is what a process knows of a session that it wrote or read last.
type known struct {
	head    *head
	version int64 // of the head's row
	life    life
}

func (h *head) encode() (string, error) {
	h.Secret, h.LeaseOwner, h.LeaseToken = h.Row.Secret, h.Row.Lease.Owner, h.Row.Lease.Token
	return backend.EncodeJSON("session", h)
}

// decodeHead reads a head that a store had at a time.
func decodeHead(text string, now time.Time) (*head, error) {
	h := &head{}
	if err := backend.DecodeJSON("session", text, h); err != nil {
		return nil, err
	}
	h.Row.Secret, h.Row.AsOf = h.Secret, now
	h.Row.Removal, h.Row.RemovedAt = string(h.Removal), h.RemovedAt
	h.Row.Lease.Owner, h.Row.Lease.Token = h.LeaseOwner, h.LeaseToken
	return h, nil
}

// copy returns a copy whose row may be changed.
func (h *head) copy() *head {
	c := *h
	c.Row = *backend.CopyRow(&h.Row)
	if h.Stop != nil {
		stop := *h.Stop
		c.Stop = &stop
	}
	return &c
}

// due returns why and since when the session needs a worker, now or later.
func (h *head) due() driver.Due {
	d := (&backend.Document{Row: h.Row, DueAt: h.DueAt}).Due()
	d.Agent = h.RootAgent
	return d
}

// The lists of the directory. Their keys are times with what makes them unique.
const (
	allSessions = "sessions"
	allCalls    = "calls"
	openCalls   = "calls of status open"
	removedList = "sessions of removed trees"
	removals    = "removed trees"
	staleTrees  = "trees that may have expired"
	allStops    = "stop requests"
	unswept     = "logs to sweep"
	allDue      = "due"
)

func ofRoot(list, root string) string { return list + " of root " + root }
func ofUser(list, user string) string { return list + " of user " + user }
func ofAgent(list, agent string) string {
	return list + " of agent " + agent
}

// timed returns the key of an item at a time.
func timed(at time.Time, id string) string {
	return fmt.Sprintf("%016d/%s", max(at.UnixMicro(), 0), id)
}

// callKey returns the key of a call in a list.
func callKey(at time.Time, root, id string) string { return timed(at, root+"\x00"+id) }

// share returns what the directory needs of the session, whose encoded head is text.
func (h *head) share(text string) shared {
	row := &h.Row
	at := timed(row.CreatedAt, row.ID)
	if h.Removal != "" {
		return shared{Source: ofSession(row.ID), Value: &text, Lists: [][2]string{{removedList, at}}}
	}
	lists := [][2]string{{allSessions, at}, {ofRoot(allSessions, row.RootID), at}}
	if row.UserID != "" {
		lists = append(lists, [2]string{ofUser(allSessions, row.UserID), at})
	}
	if d := h.due(); d.Kind != "" {
		at := timed(d.Since, row.ID)
		lists = append(lists, [2]string{allDue, at}, [2]string{ofAgent(allDue, d.Agent), at})
	}
	return shared{Source: ofSession(row.ID), Value: &text, Lists: lists}
}

// callPlace is where a pending call is: a call's id is unique in its tree.
type callPlace struct {
	Session   string    `json:"session"`
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`

	row int64 // version of its row
}

// shareCall returns what the directory needs of a call, whose JSON is text.
func shareCall(c *cairn.PendingCall, text string) shared {
	at := callKey(c.CreatedAt, c.RootID, c.ID)
	lists := [][2]string{{allCalls, at}, {ofRoot(allCalls, c.RootID), at}}
	if c.Status == cairn.CallOpen {
		lists = append(lists, [2]string{openCalls, at})
	}
	return shared{Source: sourceOfCall(c.RootID, c.ID), Value: &text, Lists: lists}
}

func sourceOfCall(root, id string) string { return "call/" + root + "\x00" + id }

// encodePiece returns a piece of state as it is stored, and decodePiece reads it.
func encodePiece(p *plan.StatePiece) string {
	if p.Keyframe {
		return "K" + string(p.Data)
	}
	return "C" + string(p.Data)
}

func decodePiece(r *row) (p plan.StatePiece, err error) {
	if p.Position, err = numberOf(r.key); err != nil || len(r.value) == 0 {
		return p, cairn.Errorf(cairn.ErrCorrupt, "invalid stored state %q", r.key)
	}
	p.Keyframe, p.Data = r.value[0] == 'K', json.RawMessage(r.value[1:])
	return p, nil
}

// stateAt asks for the pieces of the state at a position, newest first, from that piece back to its keyframe. A
// negative position is the current one.
func stateAt(owner string, position int64) ask {
	to := after("state")
	if position >= 0 {
		to = numbered("state", position+1)
	}
	a := scan(owner, "state/", to)
	a.Newest, a.Until = true, "K"
	return a
}

// numberOf returns the number in a key that numbered made.
func numberOf(key string) (int64, error) {
	_, digits, _ := strings.Cut(key, "/")
	return strconv.ParseInt(digits, 10, 64)
}

func sourceOfStop(id string) string      { return "stop/" + id }
func sourceOfStale(root string) string   { return "stale/" + root }
func sourceOfRemoval(root string) string { return "removal/" + root }

// life is a row of a tree: when the tree may have expired, and whether it was removed. A tree that has none never
// expires. Each write to a session of the tree requires it unchanged.
type life struct {
	SweepAt time.Time       `json:"sweep_at,omitzero"`
	Removed *driver.Removed `json:"removed,omitempty"`

	version int64 // of its row
}

// stale reports whether it is time to check whether the tree has expired.
func (l *life) stale(now time.Time) bool { return !l.SweepAt.IsZero() && !now.Before(l.SweepAt) }

// splitTimed returns the microseconds and the id in a key that timed made.
func splitTimed(key string) (micros int64, id string, err error) {
	digits, id, _ := strings.Cut(key, "/")
	if micros, err = strconv.ParseInt(digits, 10, 64); err != nil {
		err = cairn.Errorf(cairn.ErrCorrupt, "invalid stored key %q of a list", key)
	}
	return micros, id, err
}
