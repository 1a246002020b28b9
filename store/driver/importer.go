package driver

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
)

// Importer is a Store with its own event log that can import session trees from other stores unchanged. A commit cannot
// do that, since it sets times, turns, numbers and versions itself.
type Importer interface {
	Store
	LogProvider
	// Inside returns the data of a session that Store's methods do not return, with at most limit state changes,
	// starting at the position from or at the oldest one left.
	Inside(ctx context.Context, id string, from int64, limit int) (*Inside, error)
	// Import adds a session tree and its event log; parts are in the order of Export of package store. Readers see
	// either the whole tree or nothing. An error means that nothing was added, except for ErrUnavailable, which means
	// that the answer was lost. Versions, times, numbers, fencing tokens and sequences are taken from the parts, and
	// the log knows the sessions' fencing tokens. The error is ErrExists if a session with one of the ids exists, or a
	// log of that name with events; a dropped log of that name becomes usable again. For parts that do not form a whole
	// tree, or have blobs, it returns the error of [CheckImport]. parts may be ranged over several times. A store on disk
	// holds one part in memory at a time, plus the ids of the earlier ones.
	Import(ctx context.Context, root string, parts iter.Seq2[*Part, error]) error
}

// Gatherer is an Importer that reads many small trees at once, at less cost than one by one.
type Gatherer interface {
	// Gather returns the parts of session trees, by their roots, as Export of package store yields them, without blobs.
	// Each tree is as of one point in time. Gather leaves out trees that do not exist or have expired, that have several sessions,
	// or that Export would yield in pages. It also leaves out the trees that exceed about the given number of bytes
	// together.
	Gather(ctx context.Context, roots []string, bytes int) (map[string][]*Part, error)
}

// These bound how much of a session is in memory while a tree is exported: the number of items in a part.
const (
	ExportPage   = 100
	ExportStates = 10 // each may be a whole state
)

// Inside is the data of a session that Store's methods do not return.
type Inside struct {
	// FirstState is the position of the oldest state change that is kept.
	FirstState int64 `json:"first_state"`
	// Checkpoints is the number of the last checkpoint ever written.
	Checkpoints int64 `json:"checkpoints"`
	// Stop is the stop request aimed at the run that holds the session, or nil.
	Stop *cairn.Stop `json:"stop,omitempty"`
	// DueSince is the time from which a session with a [DueKindOf] needs a worker; zero for any other session.
	DueSince time.Time `json:"due_since,omitzero"`
	// States are state changes as stored: a keyframe, or operations on the state before. The oldest one is a keyframe.
	States []StateChange `json:"states,omitempty"`
}

// Part is a piece of a session tree in transfer from one store to another. A tree begins with its root; the other
// sessions follow, parents before children. A part with Session begins a session, and everything up to the next one
// belongs to it. The events and the blobs come last and belong to the tree.
type Part struct {
	Session     *SessionPart        `json:"session,omitempty"`
	States      []StateChange       `json:"states,omitempty"`
	Messages    []cairn.Message     `json:"messages,omitempty"`
	Runs        []cairn.Run         `json:"runs,omitempty"`
	Checkpoints []cairn.Checkpoint  `json:"checkpoints,omitempty"`
	Calls       []cairn.PendingCall `json:"calls,omitempty"`
	Queue       []QueuedTurn        `json:"queue,omitempty"`
	Staged      []Staged            `json:"staged,omitempty"`
	Cache       []CacheEntry        `json:"cache,omitempty"`
	Events      []cairn.Event       `json:"events,omitempty"`
	// Blobs lists blobs that the tree names. Bytes are the next of the listed blobs, in the order of the lists. Both come
	// after the events. An Importer refuses them: Import of package store puts them into the store after the tree.
	Blobs []BlobRow `json:"blobs,omitempty"`
	Bytes [][]byte  `json:"bytes,omitempty"`
}

// SessionPart begins a session. Its JSON has the secret and the whole lease, which the row's JSON lacks.
type SessionPart struct {
	Row cairn.Session `json:"row"`
	// Secret is the secret of Row.
	Secret string `json:"secret"`
	// Inside omits the States, which are parts of their own.
	Inside Inside `json:"inside"`
	// Log is the extent of the tree's event log; only the root has one.
	Log *LogExtent `json:"log,omitempty"`
	// BlobCount is the number of blobs that the parts of the tree list; only the root has one.
	BlobCount int `json:"blob_count,omitempty"`
}

// sessionPart is a SessionPart in JSON.
type sessionPart struct {
	*plainPart
	LeaseOwner string `json:"lease_owner,omitempty"`
	LeaseToken int64  `json:"lease_token,omitempty"`
}

type plainPart SessionPart

// MarshalJSON returns the part with the whole lease.
func (p SessionPart) MarshalJSON() ([]byte, error) {
	return json.Marshal(sessionPart{(*plainPart)(&p), p.Row.Lease.Owner, p.Row.Lease.Token})
}

// UnmarshalJSON sets the part.
func (p *SessionPart) UnmarshalJSON(raw []byte) error {
	all := sessionPart{plainPart: (*plainPart)(p)}
	err := json.Unmarshal(raw, &all)
	p.Row.Lease.Owner, p.Row.Lease.Token = all.LeaseOwner, all.LeaseToken
	return err
}

// LogExtent holds the sequences of a log's first and last event, as Log.Bounds returns them.
type LogExtent struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}
