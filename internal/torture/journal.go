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
	// arrived: what an effectful tool sent has arrived at the receiver.
	arrived recordKind = "arrived"
	// working: the process works under a lease that another process may have taken, because a host lets it execute
	// effects.
	working recordKind = "working"
	// looked: the process has read a session's staged pieces, as it does at the begin of a host's effect.
	looked recordKind = "looked"
	// staged and committed: the store has acknowledged it.
	staged    recordKind = "staged"
	committed recordKind = "committed"
	// answered: an answer was submitted and acknowledged.
	answered recordKind = "answered"
	// stopHeld: a stop of a session in the run Ended was acknowledged.
	stopHeld recordKind = "stop_held"
	// learned: an execution of a tool got the answer to its question.
	learned recordKind = "learned"
	// dequeuing: the process is about to remove a turn from the queue; dequeued: it did; notQueued: the turn was
	// gone.
	dequeuing recordKind = "dequeuing"
	dequeued  recordKind = "dequeued"
	notQueued recordKind = "not_queued"
	// sending: the process is about to send a message to a session whose process is gone; sent: it was acknowledged.
	sending recordKind = "sending"
	sent    recordKind = "sent"
	// undoing: the process is about to undo a run.
	undoing recordKind = "undoing"
)

// record is one line of the journal.
type record struct {
	Kind    recordKind `json:"kind"`
	Process string     `json:"process"`
	At      time.Time  `json:"at"` // by the machine's clock
	Session string     `json:"session"`
	Root    string     `json:"root,omitempty"` // root of the committed session

	Call string `json:"call,omitempty"` // call of a tool, with a staged result, or that was answered
	Key  string `json:"key,omitempty"`  // idempotency key of the call, or key of the staged piece

	// Reviewer, Decision and Value describe an answer, Outcome its outcome.
	Reviewer string             `json:"reviewer,omitempty"`
	Decision cairn.DecisionKind `json:"decision,omitempty"`
	Value    json.RawMessage    `json:"value,omitempty"`
	Outcome  cairn.Outcome      `json:"outcome,omitempty"`

	// Digests are the digests of the replies that were requested, staged or committed.
	Digests []string `json:"digests,omitempty"`
	// Results are the calls whose results were committed.
	Results []string `json:"results,omitempty"`

	// Since is the time at which the reading began.
	Since time.Time `json:"since,omitzero"`

	// Token is the lease's fencing token: that of staging or working, or that after the commit. Took reports
	// whether the commit took the lease.
	Token int64 `json:"token,omitempty"`
	Took  bool  `json:"took,omitempty"`
	// Dropped reports whether the commit removed the staged pieces.
	Dropped bool `json:"dropped,omitempty"`
	// Saw is the version that the commit replaced, if its writer named it.
	Saw int64 `json:"saw,omitempty"`
	// Version and Messages are the session's version and number of messages after the commit.
	Version  int64  `json:"version,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Step     string `json:"step,omitempty"`  // id of the committed step
	Began    string `json:"began,omitempty"` // the run that the commit began
	Ended    string `json:"ended,omitempty"` // the run that the commit ended
	Status   string `json:"status,omitempty"`
	// Queued is the turn that the commit enqueued, or that was removed from the queue. Text is its text. Steer
	// reports whether it is to join the turn under way.
	Queued string `json:"queued,omitempty"`
	Text   string `json:"text,omitempty"`
	Steer  bool   `json:"steer,omitempty"`
	// Way is how a message was sent to a session whose process is gone. Queued and Text are then its turn and text.
	Way way `json:"way,omitempty"`
	// Undone is the run that the commit undid.
	Undone string `json:"undone,omitempty"`
	// Number is the question's number, Learned the answer's value.
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

// write appends a record with a single write. The process can be killed during it, so a record also begins with a
// newline: a torn record stays on its own line.
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

// readJournal returns the records from an offset on, and the offset after them. It skips torn records.
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
