package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// History is what is left of one session: what its store holds, and what the journal says was acknowledged.
type History struct {
	Session     *cairn.Session
	Messages    []cairn.Message
	State       json.RawMessage
	Runs        []cairn.Run
	Checkpoints []cairn.Checkpoint
	Events      []cairn.Event
	Journal     []record
	// Sample is the state as of the checkpoint in the middle, if there is one.
	Sample json.RawMessage
	// Settled says that the session has been brought to its end and its log completed. A history that is not is one of
	// dead processes: a run may be open, and its last events may be missing.
	Settled bool
}

// load reads the history of a session that nobody drives. It is nil if the session does not exist.
func load(ctx context.Context, st store.Store, id string, journal []record, settled bool) (*History, error) {
	if there, err := store.Exists(ctx, st, id); err != nil || !there {
		return nil, err
	}
	snap, err := st.Snapshot(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	h := &History{Session: snap.Session, Messages: snap.Messages, State: snap.State, Journal: journal, Settled: settled}
	if h.Runs, err = pages(func(q store.PageQuery) (store.Page[cairn.Run], error) { return st.Runs(ctx, id, q) }); err != nil {
		return nil, err
	}
	h.Checkpoints, err = pages(func(q store.PageQuery) (store.Page[cairn.Checkpoint], error) { return st.Checkpoints(ctx, id, q) })
	if err != nil {
		return nil, err
	}
	if n := len(h.Checkpoints); n > 0 {
		if h.Sample, err = st.State(ctx, id, h.Checkpoints[n/2].ID); err != nil {
			return nil, err
		}
	}
	log := st.(store.LogProvider).EventLog()
	for last := int64(0); ; last = h.Events[len(h.Events)-1].Sequence {
		batch, err := log.Read(ctx, snap.Session.RootID, last, 0)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			return h, nil
		}
		h.Events = append(h.Events, batch...)
	}
}

func pages[T any](read func(store.PageQuery) (store.Page[T], error)) (all []T, err error) {
	var q store.PageQuery
	for {
		page, err := read(q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// Invariants are what holds of every history. Each returns what is wrong, or nil.
var Invariants = []struct {
	Name  string
	Check func(*History) error
}{
	{"no committed step lost", nothingLost},
	{"one writer at a time", oneWriter},
	{"no committed step run again", nothingCommittedAgain},
	{"no staged result computed again", nothingStagedAgain},
	{"per tool, all is staged before it is committed", stagedFirst},
	{"no message twice", messagesOnce},
	{"every tool use has one result right after it", usesAnswered},
	{"the transcript is what the model says", transcriptScripted},
	{"the state is the fold of the results", stateFolded},
	{"run turns contiguous", runsContiguous},
	{"usage adds up", usageAddsUp},
	{"checkpoints in order", checkpointsOrdered},
	{"events contiguous", eventsContiguous},
	{"replay equals live", replayEqualsLive},
	{"one mark per end", marksOnce},
	{"patches lead to the state", patchesFolded},
	{"no session running without a lease", nobodyLeftRunning},
}

// check returns everything that is wrong with a history.
func (h *History) check() []error {
	var list []error
	for _, inv := range Invariants {
		if err := inv.Check(h); err != nil {
			list = append(list, fmt.Errorf("session %s: %s: %w", h.Session.ID, inv.Name, err))
		}
	}
	return list
}

// step is one committed step as the transcript has it.
type step struct {
	run     *cairn.Run
	number  int // in the run
	at      int // index of the reply
	reply   *cairn.Message
	results *cairn.Message   // nil if the reply calls no tools
	after   []*cairn.Message // hidden rows
}

// turn is what one run added to the transcript.
type turn struct {
	run   *cairn.Run
	input []*cairn.Message
	steps []step
}

// turns takes the transcript apart, without judging it.
func (h *History) turns() []turn {
	list := make([]turn, len(h.Runs))
	byRun := map[string]*turn{}
	for i := range h.Runs {
		list[i].run = &h.Runs[i]
		byRun[h.Runs[i].ID] = &list[i]
	}
	for i := range h.Messages {
		m := &h.Messages[i]
		t := byRun[m.RunID]
		if t == nil {
			continue
		}
		last := len(t.steps) - 1
		switch {
		case m.Role == cairn.RoleAssistant:
			t.steps = append(t.steps, step{run: t.run, number: last + 2, at: i, reply: m})
		case last < 0:
			t.input = append(t.input, m)
		case m.Role == cairn.RoleTool && t.steps[last].results == nil:
			t.steps[last].results = m
		default:
			t.steps[last].after = append(t.steps[last].after, m)
		}
	}
	return list
}

// committedSteps is how many steps of a run the store says are committed.
func (h *History) committedSteps(run *cairn.Run) int {
	if run.Status == cairn.RunRunning {
		return h.Session.Step
	}
	return run.Steps
}

func (s *step) String() string { return fmt.Sprintf("run %s step %d", s.run.ID, s.number) }

// stepID is the id of a run's step.
func stepID(run string, number int) string { return fmt.Sprintf("%s/%d", run, number) }

// compact returns JSON in one spelling, so that stores may have their own.
func compact(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func join[T any](list []T, show func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = show(v)
	}
	return strings.Join(texts, ", ")
}
