package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var contextTests = []storeTest{
	{name: "CancelledBefore", run: cancelledBefore},
	{name: "CancelledDuring", run: cancelledDuring},
	{name: "Closed", run: closed},
}

// storeCall is one call of a method of a store, with arguments that would succeed on a session in the middle of a run.
type storeCall struct {
	name string
	// creates says that the session need not exist.
	creates bool
	do      func(context.Context, driver.Store) error
}

// storeCalls returns calls of every method that takes a context, on the session made by harness.running.
func storeCalls(id string) []storeCall {
	run := "run-of-" + id
	failure := func(_ any, err error) error { return err }
	return []storeCall{
		{"Commit", false, func(ctx context.Context, st driver.Store) error {
			return failure(st.Commit(ctx, id, &driver.Commit{Messages: says("more")}))
		}},
		{"Commit that creates", true, func(ctx context.Context, st driver.Store) error {
			return failure(st.Commit(ctx, id+"-new", &driver.Commit{Create: &cairn.Session{Agent: agentName}, Guard: driver.Guard{New: true}}))
		}},
		{"Load", false, func(ctx context.Context, st driver.Store) error { return failure(driver.Load(ctx, st, id)) }},
		{"Snapshot", false, func(ctx context.Context, st driver.Store) error { return failure(st.Read(ctx, id, driver.ToDrive(0))) }},
		{"Messages", false, func(ctx context.Context, st driver.Store) error { return failure(driver.Messages(ctx, st, id, 0, 10)) }},
		{"State", false, func(ctx context.Context, st driver.Store) error { return failure(driver.State(ctx, st, id, "")) }},
		{"Stage", false, func(ctx context.Context, st driver.Store) error {
			return st.Stage(ctx, id, tokenOf(st, id), piece("another step", "key", `1`))
		}},
		{"Staged", false, func(ctx context.Context, st driver.Store) error { return failure(driver.StagedOf(ctx, st, id, "")) }},
		{"Renew", false, func(ctx context.Context, st driver.Store) error {
			return failure(st.Renew(ctx, id, tokenOf(st, id), 9*time.Hour))
		}},
		{"RequestStop", false, func(ctx context.Context, st driver.Store) error { return st.RequestStop(ctx, id, abort(run, "")) }},
		{"Run", false, func(ctx context.Context, st driver.Store) error { return failure(driver.FindRun(ctx, st, id, run)) }},
		{"Runs", false, func(ctx context.Context, st driver.Store) error { return failure(st.Runs(ctx, id, driver.PageQuery{})) }},
		{"Checkpoint", false, func(ctx context.Context, st driver.Store) error {
			return failure(driver.FindCheckpoint(ctx, st, id, "checkpoint-of-"+id+"-1"))
		}},
		{"Checkpoints", false, func(ctx context.Context, st driver.Store) error {
			return failure(st.Checkpoints(ctx, id, driver.PageQuery{}))
		}},
		{"Branch", false, func(ctx context.Context, st driver.Store) error {
			return failure(st.Branch(ctx, id, driver.BranchPoint{}, &cairn.Session{ID: id + "-branch", Agent: agentName}))
		}},
		{"Prune", false, func(ctx context.Context, st driver.Store) error { return failure(st.Prune(ctx, id, 1)) }},
		{"Call", false, func(ctx context.Context, st driver.Store) error {
			return failure(driver.FindCall(ctx, st, id, "call-of-"+id))
		}},
		{"Calls", true, func(ctx context.Context, st driver.Store) error { return failure(st.Calls(ctx, driver.CallQuery{})) }},
		{"Queue", false, func(ctx context.Context, st driver.Store) error { return failure(driver.Queue(ctx, st, id)) }},
		{"List", true, func(ctx context.Context, st driver.Store) error { return failure(st.List(ctx, driver.SessionQuery{})) }},
		{"Due", true, func(ctx context.Context, st driver.Store) error { return failure(st.Due(ctx, driver.DueQuery{})) }},
		{"Delete", false, func(ctx context.Context, st driver.Store) error { return st.Delete(ctx, id) }},
	}
}

// tokenOf returns the fencing token of a session's holder, or some token if there is no such session.
func tokenOf(st driver.Store, id string) int64 {
	if s, err := driver.Load(context.Background(), st, id); err == nil {
		return s.Lease.Token
	}
	return 1
}

// sweeperCalls returns calls of the methods of a Sweeper.
func sweeperCalls(id string) []storeCall {
	failure := func(_ any, err error) error { return err }
	return []storeCall{
		{"Stale", true, func(ctx context.Context, st driver.Store) error {
			return failure(st.(driver.Sweeper).Stale(ctx, driver.PageQuery{}))
		}},
		{"Removed", true, func(ctx context.Context, st driver.Store) error {
			return failure(st.(driver.Sweeper).Removed(ctx, 0, driver.PageQuery{}))
		}},
		{"Remove", false, func(ctx context.Context, st driver.Store) error {
			return failure(st.(driver.Sweeper).Remove(ctx, id, driver.Deleted))
		}},
		{"Restore", false, func(ctx context.Context, st driver.Store) error {
			_, err := st.(driver.Sweeper).Restore(ctx, id)
			if errors.Is(err, cairn.ErrExists) {
				return nil // the answer for a session that exists
			}
			return err
		}},
	}
}

// storeCalls returns calls of all methods that the store has.
func (h *harness) storeCalls(id string) []storeCall {
	list := storeCalls(id)
	if h.opts.sweeps {
		list = slices.Insert(list, len(list)-1, sweeperCalls(id)...) // before the deletion; restoration after removal
	}
	return list
}

// cancelledBefore calls every method with a cancelled context: nothing changes. Afterwards each of them succeeds,
// except for the deletion of a running session.
func cancelledBefore(h *harness) {
	s := h.running("session")
	h.step(s, "reply") // so that there is something to prune
	dead, cancel := context.WithCancel(h.Context())
	cancel()
	for _, call := range h.storeCalls("session") {
		h.unchanged("session", call.name+" with a cancelled context", func() {
			if err := call.do(dead, h.st); !errors.Is(err, context.Canceled) {
				h.Fatalf("%s with a cancelled context: error %v, want context.Canceled", call.name, err)
			}
		})
	}
	for _, id := range []string{"session-new", "session-branch"} {
		if there, err := driver.Exists(h.Context(), h.st, id); err != nil || there {
			h.Fatalf("%s exists after a cancelled call: %v, %v", id, there, err)
		}
	}
	h.wantStop(h.load("session"), nil)
	for _, call := range h.storeCalls("session") {
		if err := call.do(h.Context(), h.st); err != nil && !errors.Is(err, cairn.ErrAlreadyRunning) {
			h.Fatalf("%s afterwards: %v", call.name, err)
		}
	}
}

// cancelledDuring cancels commits at any moment: each is applied in full or not at all.
func cancelledDuring(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	random := rand.New(rand.NewPCG(3, 4))
	committed := 0
	for range h.rounds(200) {
		c := h.stepCommit(s, "reply")
		c.State = &driver.StateChange{Ops: []cairn.Op{appendOp("/list", "1")}}
		ctx, cancel := context.WithTimeout(h.Context(), time.Duration(random.IntN(400))*time.Microsecond)
		_, err := h.st.Commit(ctx, "session", c)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			h.Fatalf("commit with a context that ran out: %v", err)
		}
		snap, broken := h.st.Read(h.Context(), "session", driver.ToDrive(0))
		h.must(broken)
		s = snap.Session
		switch done := s.CheckpointID == c.Checkpoint.ID; {
		case done:
			committed++
		case err == nil:
			h.Fatal("a commit that succeeded did not happen")
		}
		var state struct{ List []int }
		h.must(json.Unmarshal(snap.State, &state))
		if len(snap.Messages) != committed+1 || len(state.List) != committed || s.Step != committed || s.Version < int64(committed)+2 {
			h.Fatalf("after %d commits: %d messages, %d items of state, step %d, version %d", committed,
				len(snap.Messages), len(state.List), s.Step, s.Version)
		}
	}
	if got := len(h.checkpoints("session")); got != committed {
		h.Fatalf("after %d commits: %d checkpoints", committed, got)
	}
}

func closed(h *harness) {
	h.running("session")
	h.must(h.st.Close())
	for _, call := range h.storeCalls("session") {
		h.wantError(call.do(h.Context(), h.st), cairn.ErrClosed, fmt.Sprintf("%s of a closed store", call.name))
	}
	if err := h.st.Close(); err != nil && !errors.Is(err, cairn.ErrClosed) {
		h.Fatalf("closing again: %v", err)
	}
}
