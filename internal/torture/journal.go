package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cairn-agents/cairn"
)

// recordKind is the kind of a record of the journal.
type recordKind string

const (
	toolStarted recordKind = "tool_started"
	toolEnded   recordKind = "tool_ended"
	modelCalled recordKind = "model_called"
	// The process works under a lease that another process may have taken: a host lets it carry out effects.
	working recordKind = "working"
	// The process has read what was staged of a session, as it does when an effect of a host begins.
	looked recordKind = "looked"
	// The store has acknowledged it.
	staged    recordKind = "staged"
	committed recordKind = "committed"
	// An answer was submitted, and acknowledged.
	answered recordKind = "answered"
	// A pass of a tool's function was given an answer to its question.
	learned recordKind = "learned"
	// A turn is to be taken out of the queue; it was; or it was not there any more.
	dequeuing recordKind = "dequeuing"
	dequeued  recordKind = "dequeued"
	notQueued recordKind = "not_queued"
)

// record is one line of the journal.
type record struct {
	Kind    recordKind `json:"kind"`
	Process string     `json:"process"`
	At      time.Time  `json:"at"` // by the machine's clock
	Session string     `json:"session"`
	Root    string     `json:"root,omitempty"` // of the session that was committed

	Call string `json:"call,omitempty"` // of a tool, whose result was staged, or that was answered
	Key  string `json:"key,omitempty"`  // the call's idempotency key, or the key of what was staged

	// Reviewer, Decision and Value are of an answer, Outcome is its outcome.
	Reviewer string             `json:"reviewer,omitempty"`
	Decision cairn.DecisionKind `json:"decision,omitempty"`
	Value    json.RawMessage    `json:"value,omitempty"`
	Outcome  cairn.Outcome      `json:"outcome,omitempty"`

	// Digests are those of the replies that the model was asked for, or that were staged or committed.
	Digests []string `json:"digests,omitempty"`
	// Results are the calls whose results were committed.
	Results []string `json:"results,omitempty"`

	// Since is when the reading began.
	Since time.Time `json:"since,omitzero"`

	// Token is the lease's: the one for staging or working, or the one after the commit. Took is set if the commit took
	// the lease.
	Token int64 `json:"token,omitempty"`
	Took  bool  `json:"took,omitempty"`
	// Dropped is set if the commit removed the staged pieces.
	Dropped bool `json:"dropped,omitempty"`
	// Version and Messages are the session's after the commit.
	Version  int64  `json:"version,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Step     string `json:"step,omitempty"`  // the id of the step that was committed
	Began    string `json:"began,omitempty"` // the run that the commit began
	Ended    string `json:"ended,omitempty"` // the run that the commit ended
	Status   string `json:"status,omitempty"`
	// Queued is the turn that the commit enqueued, or that was taken out. Text is what it says, and Steer is set if it is to
	// join the turn under way.
	Queued string `json:"queued,omitempty"`
	Text   string `json:"text,omitempty"`
	Steer  bool   `json:"steer,omitempty"`
	// Number is the question's, Learned what its answer says.
	Number  int `json:"number,omitempty"`
	Learned int `json:"learned,omitempty"`
}

// journal is a file that all processes append to. It needs no flushing, since the machine outlives the processes.
type journal struct {
	file    *os.File
	process string
}

func openJournal(dir, process string) (*journal, error) {
	f, err := os.OpenFile(journalPath(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &journal{f, process}, err
}

func journalPath(dir string) string { return filepath.Join(dir, "journal") }

// write adds a record in one write. A process can be killed in the middle of it, so a record begins with a newline as
// well: a torn record stays on a line of its own.
func (j *journal) write(r record) {
	r.Process, r.At = j.process, time.Now()
	raw, err := json.Marshal(r)
	if err == nil {
		_, err = j.file.Write([]byte("\n" + string(raw) + "\n"))
	}
	if err != nil {
		panic(fmt.Sprintf("journal: %v", err))
	}
}

// readJournal returns the records from an offset on, and the offset after them. It skips torn ones.
func readJournal(dir string, from int64) (list []record, to int64, err error) {
	f, err := os.Open(journalPath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, 0, err
	}
	in := bufio.NewReader(f)
	for {
		raw, err := in.ReadBytes('\n')
		from += int64(len(raw))
		var r record
		if json.Unmarshal(raw, &r) == nil {
			list = append(list, r)
		}
		if errors.Is(err, io.EOF) {
			return list, from, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
}
