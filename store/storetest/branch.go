package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var branchTests = []storeTest{
	{name: "AsItIs", run: branchAsItIs},
	{name: "AtEachCheckpoint", run: branchAtCheckpoints},
	{name: "AfterEachMessage", run: branchAtMessages},
	{name: "AfterAPrune", run: branchPruned},
	{name: "RowIsNew", run: branchRow},
	{name: "Isolation", run: branchIsolation},
	{name: "OfABranch", run: branchOfBranch},
	{name: "DecidedCalls", run: branchCalls},
	{name: "AnotherTail", run: branchTail},
	{name: "Errors", run: branchErrors},
}

// threeSteps makes a session with one turn of three steps with state, and a message from outside a run.
func (h *harness) threeSteps(id string) *cairn.Session {
	h.Helper()
	h.createWith(id, `{"n":0}`)
	s := h.begin(id, "run of "+id)
	for i := 1; i <= 3; i++ {
		s = h.stepState(s, fmt.Sprint("reply ", i), replaceOp("/n", fmt.Sprint(i)))
	}
	h.end(s)
	_, err := driver.MergeState(h.Context(), h.st, id, replaceOp("/n", "4"))
	h.must(err)
	return h.commit(id, &driver.Commit{Messages: says("afterwards")})
}

func (h *harness) branch(from string, at driver.BranchPoint, to string) *cairn.Session {
	h.Helper()
	var row *cairn.Session
	var err error
	h.unchanged(from, "a branch from it", func() {
		row, err = h.st.Branch(h.Context(), from, at, &cairn.Session{ID: to, Agent: agentName})
	})
	if err != nil {
		h.Fatalf("branch %q from %q: %v", to, from, err)
	}
	return row
}

func branchAsItIs(h *harness) {
	h.threeSteps("source")
	source := h.content("source")
	row := h.branch("source", driver.BranchPoint{}, "branch")
	branch := h.content("branch")
	same(h.T, "messages", branch.Messages, source.Messages)
	same(h.T, "state", branch.State, source.State)
	same(h.T, "row", branch.Session, row)
	if row.MessageCount != len(source.Messages) {
		h.Fatalf("the branch counts %d messages, want %d", row.MessageCount, len(source.Messages))
	}
	h.create("empty")
	h.branch("empty", driver.BranchPoint{}, "branch of empty")
	h.wantState("branch of empty", "", `{}`)
}

func branchAtCheckpoints(h *harness) {
	h.threeSteps("source")
	source := h.content("source")
	for i, cp := range source.Checkpoints {
		id := fmt.Sprint("branch-", i)
		h.branch("source", driver.BranchPoint{CheckpointID: cp.ID}, id)
		same(h.T, "messages", h.messages(id), source.Messages[:cp.MessageCount])
		same(h.T, "state", h.state(id, ""), source.At[i])
	}
}

// branchAtMessages branches after each number of messages: the state is that of the latest checkpoint with no more
// messages.
func branchAtMessages(h *harness) {
	h.threeSteps("source")
	source := h.content("source")
	for n := range len(source.Messages) {
		id := fmt.Sprint("branch-", n)
		h.branch("source", driver.BranchPoint{Messages: &n}, id)
		same(h.T, "messages", h.messages(id), source.Messages[:n])
		want := `{"n":0}`
		for i, cp := range source.Checkpoints {
			if cp.MessageCount <= n {
				want = string(source.At[i])
			}
		}
		h.wantState(id, "", want)
	}
	// CheckpointID takes precedence over Messages.
	n := 1
	h.branch("source", driver.BranchPoint{CheckpointID: source.Checkpoints[2].ID, Messages: &n}, "both")
	same(h.T, "messages", h.messages("both"), source.Messages[:source.Checkpoints[2].MessageCount])
}

// branchPruned branches after each number of messages when checkpoints were pruned: the state is the right one, or the
// branch is refused. A session that was only rewound still has all its states.
func branchPruned(h *harness) {
	serial := 0
	check := func(source string, content *content, pruned int) {
		for n := range len(content.Messages) {
			serial++
			id, want, refused := fmt.Sprint("branch-", serial), `{"n":0}`, pruned > 0
			for i, cp := range content.Checkpoints {
				if cp.MessageCount <= n {
					want, refused = string(content.At[i]), i < pruned
				}
			}
			if !refused {
				h.branch(source, driver.BranchPoint{Messages: &n}, id)
				h.wantState(id, "", want)
				continue
			}
			h.unchanged(source, "a branch that was refused", func() {
				_, err := h.st.Branch(h.Context(), source, driver.BranchPoint{Messages: &n}, &cairn.Session{ID: id, Agent: agentName})
				h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("branch after %d messages with %d checkpoints pruned", n, pruned))
			})
			_, err := driver.Load(h.Context(), h.st, id)
			h.wantError(err, cairn.ErrNotFound, "a branch that was refused")
		}
	}
	for pruned := range 3 {
		source := fmt.Sprint("source-", pruned)
		h.threeSteps(source)
		content := h.content(source)
		gone, err := h.st.Prune(h.Context(), source, 3-pruned)
		h.must(err)
		if gone != pruned {
			h.Fatalf("%d checkpoints were pruned, want %d", gone, pruned)
		}
		check(source, content, pruned)
	}
	s := h.threeSteps("taken back")
	h.commit("taken back", &driver.Commit{RewindRun: s.RunID})
	s = h.begin("taken back", "next run")
	h.end(h.stepState(s, "reply", replaceOp("/n", "5")))
	check("taken back", h.content("taken back"), 0)
}

// branchTail gives a branch messages in place of its last ones, and makes it wait.
func branchTail(h *harness) {
	h.threeSteps("source")
	all := h.content("source").Messages
	n := len(all) - 1
	tail := slices.Clone(all[n-2 : n])
	tail[1].Parts = []cairn.Part{cairn.TextPart("another")}
	call := asks("call", "step", "ann")
	call.Call.Status, call.Call.Answer = cairn.CallAnswered, &cairn.CallAnswer{Kind: cairn.DecisionDenied}
	from := &cairn.BranchOrigin{From: "source", Messages: n - 2, Model: "large", Instructions: "Be strict.", CallID: "call"}
	at := driver.BranchPoint{Messages: &n, Tail: tail, Suspend: &driver.Suspend{StepID: "step"}, Calls: []driver.CallWrite{call}}
	row, err := h.st.Branch(h.Context(), "source", at, &cairn.Session{ID: "branch", Agent: agentName, Branch: from})
	h.must(err)
	if !row.Ready() || row.MessageCount != n || row.SuspendedStep != "step" {
		h.Fatalf("the branch is %+v", row)
	}
	same(h.T, "the branch's origin", row.Branch, from)
	got := h.content("branch")
	same(h.T, "the branch's messages", got.Messages, append(slices.Clone(all[:n-2]), tail...))
	same(h.T, "the branch's call", len(got.Calls), 1)
	if due := dueIDs(h.dueOf(10, agentName)); due != "branch" {
		h.Fatalf("due: %q, want the branch", due)
	}
	h.end(h.stepState(h.begin("branch", "run of branch"), "more", replaceOp("/n", "100")))
	same(h.T, "the origin after a run", h.load("branch").Branch, from)
}

// branchRow checks that a branch takes its context from the caller and begins its own history.
func branchRow(h *harness) {
	s := h.threeSteps("source")
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	given := &cairn.Session{ID: "branch", Agent: "another", UserID: "user", Tags: []string{"t"}, Metadata: cairn.Metadata{"k": "v"},
		ExpiresAt: expires, ParentID: "mother", RootID: "root", TraceParent: "trace", Version: 99, Turn: 99, Status: cairn.SessionFailed}
	row, err := h.st.Branch(h.Context(), "source", driver.BranchPoint{}, given)
	h.must(err)
	want := *given
	want.Status, want.Version, want.Turn, want.MessageCount = cairn.SessionIdle, 1, 0, s.MessageCount
	want.State, want.CreatedAt, want.UpdatedAt, want.Lease.Token = row.State, row.CreatedAt, row.UpdatedAt, row.CreatedAt.UnixMicro()
	same(h.T, "row", row, &want)
	if row.State.Position != 0 || row.CreatedAt.Before(s.CreatedAt) {
		h.Fatalf("row is %+v", row)
	}
	ended, err := h.st.Branch(h.Context(), "source", driver.BranchPoint{}, &cairn.Session{ID: "ended", Agent: agentName, Status: cairn.SessionCompleted})
	h.must(err)
	if now := h.load("ended").Status; ended.Status != cairn.SessionCompleted || now != ended.Status {
		h.Fatalf("a branch at the end of a turn is %s, and then %s", ended.Status, now)
	}
	h.branch("source", driver.BranchPoint{State: []byte(`{"own":1}`)}, "with a state of its own")
	h.wantState("with a state of its own", "", `{"own":1}`)
	branch := h.content("branch")
	if len(branch.Runs)+len(branch.Checkpoints)+len(branch.Staged) > 0 {
		h.Fatalf("the branch has runs %v, checkpoints %v, staged %v", branch.Runs, branch.Checkpoints, branch.Staged)
	}
}

func branchIsolation(h *harness) {
	s := h.threeSteps("source")
	h.branch("source", driver.BranchPoint{}, "branch")
	h.unchanged("source", "a turn of its branch", func() {
		h.end(h.stepState(h.begin("branch", "run of branch"), "in the branch", replaceOp("/n", "100")))
	})
	h.unchanged("branch", "a turn and a rewind of its source", func() {
		h.end(h.stepState(h.begin("source", "next run"), "in the source", replaceOp("/n", "200")))
		_, err := driver.Rewind(h.Context(), h.st, "source", s.CheckpointID)
		h.must(err)
		_, err = h.st.Prune(h.Context(), "source", 1)
		h.must(err)
	})
	h.unchanged("branch", "the deletion of its source", func() { h.must(h.st.Delete(h.Context(), "source")) })
	h.end(h.stepState(h.begin("branch", "goes on"), "still here", replaceOp("/m", "1")))
	h.wantState("branch", "", `{"n":100,"m":1}`)
}

// branchCalls gives a branch decided calls, which become its own.
func branchCalls(h *harness) {
	h.threeSteps("source")
	var given []driver.CallWrite
	for i := range 3 {
		id := fmt.Sprint("call-", i)
		h.write("source", asks(id, "step", "ann", "bob"))
		h.write("source", answers(h.call("source", id), "ann"))
		decided := *h.call("source", id)
		decided.Status = cairn.CallSettled
		given = append(given, driver.CallWrite{Call: decided})
	}
	row := h.branch("source", driver.BranchPoint{Calls: given[:2]}, "branch")
	want := []cairn.PendingCall{given[0].Call, given[1].Call}
	for i := range want {
		c := &want[i]
		c.RootID, c.SessionID, c.UserID, c.Agent = "branch", "branch", row.UserID, row.Agent
		c.Version, c.CreatedAt, c.UpdatedAt = 1, row.CreatedAt, row.UpdatedAt
	}
	q := driver.CallQuery{RootID: "branch", Statuses: []cairn.CallStatus{cairn.CallSettled}}
	same(h.T, "the branch's calls", h.calls(q), want)
	h.must(h.st.Delete(h.Context(), "source"))
	same(h.T, "the branch's calls without the source", h.calls(q), want)
	same(h.T, "a call of the branch", h.call("branch", "call-1"), &want[1])
	h.write("branch", driver.CallWrite{Call: want[1], Seen: 1})
	if c := h.call("branch", "call-1"); c.Version != 2 {
		h.Fatalf("a written call of the branch has version %d", c.Version)
	}
}

func branchOfBranch(h *harness) {
	h.threeSteps("a")
	h.branch("a", driver.BranchPoint{}, "b")
	s := h.stepState(h.begin("b", "run"), "more", appendOp("/list", "1"))
	h.end(h.stepState(s, "too much", appendOp("/list", "2")))
	h.branch("b", driver.BranchPoint{CheckpointID: s.CheckpointID}, "c")
	h.wantState("c", "", `{"n":4,"list":[1]}`)
	two := 2
	h.branch("b", driver.BranchPoint{Messages: &two}, "d")
	h.wantState("d", "", `{"n":4}`) // the branch's initial state: it has no earlier checkpoint
}

func branchErrors(h *harness) {
	h.threeSteps("source")
	h.create("there")
	negative, tooMany := -1, 1000
	for _, test := range []struct {
		name, from, to string
		at             driver.BranchPoint
		want           cairn.Code
	}{
		{"to a session that exists", "source", "there", driver.BranchPoint{}, cairn.ErrExists},
		{"to itself", "source", "source", driver.BranchPoint{}, cairn.ErrExists},
		{"from no session", "nobody", "new", driver.BranchPoint{}, cairn.ErrNotFound},
		{"at no checkpoint", "source", "new", driver.BranchPoint{CheckpointID: "nothing"}, cairn.ErrNotFound},
		{"after fewer than no messages", "source", "new", driver.BranchPoint{Messages: &negative}, cairn.ErrInvalid},
		{"after more messages than there are", "source", "new", driver.BranchPoint{Messages: &tooMany}, cairn.ErrInvalid},
	} {
		h.unchanged("source", test.name, func() {
			h.unchanged("there", test.name, func() {
				_, err := h.st.Branch(h.Context(), test.from, test.at, &cairn.Session{ID: test.to, Agent: agentName})
				h.wantError(err, test.want, test.name)
			})
		})
		if there, err := driver.Exists(h.Context(), h.st, "new"); err != nil || there {
			h.Fatalf("%s: the branch exists: %v, %v", test.name, there, err)
		}
	}
}
