package plan_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var seenAt = time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)

// session is a row in the middle of a run.
func session() *cairn.Session {
	return &cairn.Session{ID: "s", Agent: "support", Status: cairn.SessionActive, UserID: "u", RootID: "s", Incarnation: "i",
		Version: 7, MessageCount: 4, RunID: "r1", Turn: 1, Step: 1, CheckpointID: "c1", LogSequence: 9,
		Lease: cairn.Lease{Owner: "w", Token: 100, Until: seenAt.Add(time.Minute)},
		State: cairn.StatePosition{Position: 2, KeyframeBytes: 2, ChangeBytes: 30}, Outbox: &cairn.Outbox{Version: int64(time.Minute)}, AsOf: seenAt}
}

func work(t *testing.T, c *driver.Commit, seen *plan.Seen, read func(plan.Needs) error) *plan.Delta {
	t.Helper()
	d, err := plan.Work(c, seen, read)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func nothing(t *testing.T) func(plan.Needs) error {
	return func(n plan.Needs) error {
		t.Errorf("asks for %+v", n)
		return nil
	}
}

func TestStepOnKnownRowNeedsNothing(t *testing.T) {
	c := &driver.Commit{Guard: driver.Guard{Token: 100, Version: 7}, Messages: []cairn.Message{cairn.User(cairn.TextPart("hi"))},
		Step: 2, Checkpoint: &cairn.Checkpoint{ID: "c2", StepID: "st2", RunID: "r1"},
		State: &driver.StateChange{Ops: []cairn.Op{}}, Lease: driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Second}}
	d := work(t, c, &plan.Seen{ID: "s", Row: session(), Checkpoints: 1}, nothing(t))
	if d.Version != 7 || d.Token != 100 || d.OnceStep != "st2" || d.FirstMessage != 4 || d.Checkpoints != 2 {
		t.Errorf("conditions and places: %+v", d)
	}
	now := seenAt.Add(time.Hour)
	row := d.At(now)
	if row.Version <= 7 || row.MessageCount != 5 || row.Step != 2 || row.CheckpointID != "c2" || !row.Lease.Until.Equal(now.Add(time.Second)) {
		t.Errorf("the row: %+v", row)
	}
	if cp := d.Checkpoint; cp.Number != 2 || cp.ParentID != "c1" || cp.MessageCount != 5 || cp.StatePosition != 3 || !cp.CreatedAt.Equal(now) {
		t.Errorf("the checkpoint: %+v", cp)
	}
	if later := d.At(now.Add(time.Hour)); !later.UpdatedAt.Equal(d.Messages[0].CreatedAt) || !c.Messages[0].CreatedAt.IsZero() {
		t.Error("times are not filled in anew, or in the commit's own messages")
	}
}

func TestTryLeavesDoubtsToWork(t *testing.T) {
	seen := func() *plan.Seen { return &plan.Seen{ID: "s", Row: session()} }
	for name, c := range map[string]*driver.Commit{
		"another version": {Guard: driver.Guard{Version: 6}},
		"another holder":  {Guard: driver.Guard{Token: 99}},
		"a rewind":        {Rewind: "c1"},
		"another run":     {EndRun: &cairn.Run{ID: "r0"}},
	} {
		if d := plan.Try(c, seen()); d != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if plan.Try(&driver.Commit{EndRun: &cairn.Run{ID: "r1"}}, seen()) == nil {
		t.Error("the end of the row's run cannot be planned")
	}
}

func TestHappenedBeforeIsAnsweredWhateverTheGuard(t *testing.T) {
	c := &driver.Commit{Guard: driver.Guard{Version: 6}, Checkpoint: &cairn.Checkpoint{ID: "c1", StepID: "st1"}}
	seen := &plan.Seen{ID: "s", Row: session()}
	d, err := plan.Work(c, seen, func(n plan.Needs) error {
		if !n.Happened || n.StepID != "st1" {
			t.Errorf("asks for %+v", n)
		}
		seen.Happened = true
		return nil
	})
	if d != nil || err != nil {
		t.Errorf("got %+v, %v", d, err)
	}
	c.Guard = driver.Guard{Token: 99}
	if _, err := plan.Work(c, &plan.Seen{ID: "s", Row: session()}, nothing(t)); !errors.Is(err, cairn.ErrFenced) {
		t.Errorf("a token that is not current: %v", err)
	}
}

func TestRewindRunAsksForWhatTheRunBeganAt(t *testing.T) {
	c := &driver.Commit{RewindRun: "r1"}
	seen := &plan.Seen{ID: "s", Row: session()}
	var asked []plan.Needs
	d := work(t, c, seen, func(n plan.Needs) error {
		asked = append(asked, n)
		switch len(asked) {
		case 1:
			seen.Runs = map[string]*cairn.Run{"r1": {ID: "r1", FirstMessage: 1, Before: cairn.RunOrigin{CheckpointID: "c0", StatePosition: 1}}}
		case 2:
			seen.Checkpoint = &cairn.Checkpoint{ID: "c0", Number: 3}
			seen.State = &cairn.StatePosition{Position: 1, KeyframeBytes: 2, ChangeBytes: 10}
		}
		return nil
	})
	if len(asked) != 2 || len(asked[0].Runs) != 1 || asked[1].Checkpoint != "c0" || !asked[1].State || asked[1].Position != 1 {
		t.Errorf("asked for %+v", asked)
	}
	if *d.Cut != (plan.Cut{Messages: 1, State: 1, Checkpoint: 3}) || d.Row.Epoch != 1 || d.Row.MessageCount != 1 || d.Row.CheckpointID != "c0" || d.Row.State != *seen.State {
		t.Errorf("cut %+v, row %+v", d.Cut, d.Row)
	}
}
