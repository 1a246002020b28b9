package plan_test

import (
	"errors"
	"fmt"
	"go/token"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/sample"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// everyPart is a commit with each of its parts, and as little as possible in them.
func everyPart() *driver.Commit {
	return &driver.Commit{
		Create: &cairn.Session{Agent: "support", Secret: "x", Incarnation: "x", Name: "x"},
		EndRun: &cairn.Run{ID: "r1"}, StartRun: &cairn.Run{ID: "r2"},
		Messages: []cairn.Message{{}}, State: &driver.StateChange{Ops: []cairn.Op{{}}},
		Checkpoint: &cairn.Checkpoint{ID: "c2"}, Suspend: &driver.Suspend{}, Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call"}}}},
		Lease:   driver.LeaseChange{Action: driver.LeaseTake},
		Enqueue: &driver.QueuedTurn{ID: "q2"}, Cache: []driver.CacheEntry{{Key: "k"}}, Context: &driver.ContextChange{},
		Statements: []driver.Statement{{}}, Events: []cairn.Event{{}},
	}
}

// settled are the fields whose values in a commit make no difference.
var settled = []string{
	// What a new session has is what Commit.Create lists.
	"Create.ID", "Create.Tenant", "Create.Status", "Create.Version", "Create.Epoch", "Create.MessageCount", "Create.Summary", "Create.Tainted", "Create.TrustAt", "Create.RunID", "Create.Turn", "Create.Step",
	"Create.Recoveries", "Create.CheckpointID", "Create.SuspendedStep", "Create.OpenCalls", "Create.NextDeadline", "Create.Queued",
	"Create.LogSequence", "Create.Lease", "Create.State", "Create.Usage", "Create.RunUsage", "Create.Outbox", "Create.Ending", "Create.CreatedAt", "Create.UpdatedAt", "Create.AsOf",
	"Create.ArchivedAt", "Create.Opening", "Create.OpeningAt", "Create.Removal", "Create.RemovedAt",
	"EndRun.SessionID",
	"StartRun.SessionID", "StartRun.Turn", "StartRun.FirstMessage", "StartRun.Before", "StartRun.StartedAt",
	"Checkpoint.SessionID", "Checkpoint.Turn", "Checkpoint.Number", "Checkpoint.ParentID", "Checkpoint.MessageCount",
	"Checkpoint.StatePosition", "Checkpoint.CreatedAt",
	"Calls.Call.Tenant", "Calls.Call.RootID", "Calls.Call.SessionID", "Calls.Call.UserID", "Calls.Call.Agent", "Calls.Call.Version", "Calls.Call.UpdatedAt",
	"Calls.Call.CreatedAt",
	"EndRun.EndedAt", // the commit's, unless the run is still running: see TestEndOfARun
}

// outcome is the result of a commit on a session in the middle of a run, on one that is paused, and on a session that
// does not exist.
func outcome(t *testing.T, c *driver.Commit) string {
	t.Helper()
	var parts []string
	paused := session()
	paused.Status = cairn.SessionPaused
	for _, seen := range []*plan.Seen{{ID: "s", Row: session(), Checkpoints: 1, Doubt: true}, {ID: "s", Row: paused, Checkpoints: 1, Doubt: true}, {ID: "s", Doubt: true}} {
		for _, without := range []bool{false, true} { // a new session has no run to end
			own := *c
			if without {
				own.EndRun = nil
			}
			if without && seen.Row == paused { // the stop of a wait does not outlast it
				own.StartRun = nil
			}
			seen := *seen
			d, err := plan.Work(&own, &seen, func(n plan.Needs) error { answer(n, &seen); return nil })
			if err != nil || d == nil {
				parts = append(parts, fmt.Sprint(err))
				continue
			}
			row := d.At(seenAt.Add(time.Hour))
			if row.Outbox != nil {
				row.Outbox.Version, row.Outbox.Events = 0, nil
			}
			row.Version = 0 // it is random
			parts = append(parts, dump(reflect.ValueOf(d)))
		}
	}
	return strings.Join(parts, "\n")
}

// answer is what the session in the middle of a run has.
func answer(n plan.Needs, seen *plan.Seen) {
	seen.Happened = n.Happened && (n.RunID == "text" || n.StepID == "text")
	for _, id := range n.Runs {
		if id == "r1" || id == "text" {
			seen.Runs = map[string]*cairn.Run{id: {ID: id, FirstMessage: 1}}
		}
	}
	if n.Checkpoint != "" {
		seen.Checkpoint = &cairn.Checkpoint{ID: n.Checkpoint, Number: 1, MessageCount: 1}
	}
	if n.State {
		seen.State = &cairn.StatePosition{Position: n.Position}
	}
}

// dump writes all of a value, including unexported fields and values that do not encode.
func dump(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return dump(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return v.MethodByName("String").Call(nil)[0].String()
		}
		var b strings.Builder
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fmt.Fprintf(&b, "%s:%s ", v.Type().Field(i).Name, dump(v.Field(i)))
			}
		}
		return "{" + b.String() + "}"
	case reflect.Slice:
		var list []string
		for i := range v.Len() {
			list = append(list, dump(v.Index(i)))
		}
		return fmt.Sprint(list)
	case reflect.Map:
		var list []string
		for _, key := range v.MapKeys() {
			list = append(list, dump(key)+"="+dump(v.MapIndex(key)))
		}
		sort.Strings(list)
		return fmt.Sprint(list)
	}
	return fmt.Sprint(v.Interface())
}

// each calls fn with every leaf of a value, by its path.
func each(path string, v reflect.Value, fn func(path string, leaf reflect.Value)) {
	parts := []string{"Guard", "Create", "EndRun", "StartRun", "Messages", "State", "Checkpoint", "Lease", "Suspend", "Calls", "Calls.Call", "Calls.Call.CallRef",
		"Enqueue", "Cache", "Context", "Statements"}
	switch {
	case path != "" && !slices.Contains(parts, path):
		fn(strings.Replace(path, ".CallRef", "", 1), v)
	case v.Kind() == reflect.Pointer:
		each(path, v.Elem(), fn)
	case v.Kind() == reflect.Slice:
		each(path, v.Index(0), fn)
	default:
		for i := range v.NumField() {
			each(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i), fn)
		}
	}
}

// fill sets a field to a value other than that of everyPart.
func fill(field reflect.Value) {
	if action, is := field.Addr().Interface().(*driver.LeaseAction); is {
		*action = driver.LeaseRenew
		return
	}
	sample.Fill(field.Addr().Interface())
}

// A field that is added to a commit, or to one of its rows, must change the delta.
func TestEveryFieldOfACommitIsPlanned(t *testing.T) {
	t.Parallel()
	var paths []string
	each("", reflect.ValueOf(everyPart()).Elem(), func(path string, _ reflect.Value) { paths = append(paths, path) })
	if len(paths) < 100 {
		t.Fatalf("only %d fields are looked at", len(paths))
	}
	base := outcome(t, everyPart())
	if base != outcome(t, everyPart()) {
		t.Fatal("a commit is not planned the same twice")
	}
	for _, name := range paths {
		c := everyPart()
		each("", reflect.ValueOf(c).Elem(), func(path string, leaf reflect.Value) {
			if path == name {
				fill(leaf)
			}
		})
		if same := outcome(t, c) == base; same != slices.Contains(settled, name) {
			t.Errorf("%s: that it makes no difference is %v", name, same)
		}
	}
	for _, name := range settled {
		if !slices.Contains(paths, name) {
			t.Errorf("%s is no field", name)
		}
	}
}

// Some commit sets each field of a delta.
func TestEveryFieldOfADeltaIsMade(t *testing.T) {
	t.Parallel()
	commits := []*driver.Commit{everyPart(), {Rewind: "c1"}, {Create: &cairn.Session{TTL: cairn.Duration(time.Hour)}},
		{Guard: driver.Guard{Lapsed: true}}, {Context: &driver.ContextChange{Archived: new(true)}}, {Dequeue: []string{"q1"}},
		{Usage: cairn.Usage{ModelCalls: 1}, UsageEntries: []cairn.UsageEntry{{Kind: cairn.UsageModel, Name: "m", Usage: cairn.Usage{ModelCalls: 1}}}}, {CacheDrop: []string{"k"}, DropStaged: true}, {Events: []cairn.Event{{}}}, {Status: cairn.SessionPaused, Suspend: &driver.Suspend{NextDeadline: seenAt}},
		{EndRun: &cairn.Run{ID: "r1", Status: cairn.RunCompleted}, Checkpoint: &cairn.Checkpoint{ID: "c", StepID: "st"}},
		{EndRun: &cairn.Run{ID: "r1", Text: "x"}, Messages: []cairn.Message{{RunID: "r1", Parts: []cairn.Part{cairn.TextPart("x")}}}}}
	made := map[string]bool{}
	for _, c := range commits {
		row := session()
		row.Queued = 1
		if c.Guard.Lapsed {
			row.Lease.Until = row.AsOf
		}
		seen := &plan.Seen{ID: "s", Row: row, Checkpoints: 1}
		if c.Create != nil && c.EndRun == nil {
			seen.Row = nil
		}
		d := work(t, c, seen, func(n plan.Needs) error {
			answer(n, seen)
			seen.Queue = []string{"q1"}
			return nil
		})
		v := reflect.ValueOf(d).Elem()
		for i := range v.NumField() {
			made[v.Type().Field(i).Name] = made[v.Type().Field(i).Name] || !v.Field(i).IsZero()
		}
	}
	for name, is := range made {
		if !is && token.IsExported(name) {
			t.Errorf("%s is made by no commit", name)
		}
	}
}

// A run's end is the time of its commit; a running run keeps the caller's.
func TestEndOfARun(t *testing.T) {
	t.Parallel()
	own := seenAt.Add(-time.Hour)
	for status, want := range map[cairn.RunStatus]time.Time{cairn.RunRunning: own, cairn.RunCompleted: seenAt} {
		d := work(t, &driver.Commit{EndRun: &cairn.Run{ID: "r1", Status: status, EndedAt: own}}, &plan.Seen{ID: "s", Row: session()}, nothing(t))
		d.At(seenAt)
		if !d.EndRun.EndedAt.Equal(want) {
			t.Errorf("%s: ended at %v, want %v", status, d.EndRun.EndedAt, want)
		}
	}
}

func TestTimesOfMessages(t *testing.T) {
	t.Parallel()
	own := seenAt.Add(-time.Hour)
	d := work(t, &driver.Commit{Messages: []cairn.Message{{CreatedAt: own}, {}}}, &plan.Seen{ID: "s", Row: session()}, nothing(t))
	row := d.At(seenAt)
	if !d.Messages[0].CreatedAt.Equal(own) || !d.Messages[1].CreatedAt.Equal(row.UpdatedAt) {
		t.Errorf("the messages are of %v and %v", d.Messages[0].CreatedAt, d.Messages[1].CreatedAt)
	}
}

// What follows from the log's position, and the events' times.
func TestEventsOfACommit(t *testing.T) {
	t.Parallel()
	own := seenAt.Add(-time.Hour)
	c := &driver.Commit{Events: []cairn.Event{{Time: own, Version: 1}, {Version: 2}, {}}, LogSequence: 77, StartRun: &cairn.Run{ID: "r2", StartSequence: 5},
		Checkpoint: &cairn.Checkpoint{ID: "c2", StepID: "st2", LogSequence: 66}, Lease: driver.LeaseChange{Action: driver.LeaseTake}}
	d := work(t, c, &plan.Seen{ID: "s", Row: session(), Checkpoints: 1}, nothing(t))
	for _, before := range []int64{20, 30} { // a second attempt finds a longer log
		d.Logged(before)
		row := d.At(seenAt)
		if row.LogSequence != before+3 || d.Checkpoint.LogSequence != before+3 || d.StartRun.StartSequence != before || !d.Fence {
			t.Errorf("after %d events: the row is at %d, the checkpoint at %d, the run starts at %d; fences: %v", before,
				row.LogSequence, d.Checkpoint.LogSequence, d.StartRun.StartSequence, d.Fence)
		}
		events := d.Finished()
		if !events[0].Time.Equal(own) || !events[1].Time.Equal(row.UpdatedAt) || events[0].Version != row.Version || events[1].Version != row.Version || events[2].Version != 0 {
			t.Errorf("events: %+v", events)
		}
		if again := d.Finished(); &again[0] != &events[0] {
			t.Error("the events are copied again")
		}
		d.At(seenAt.Add(time.Hour)) // another attempt
		if again := d.Finished(); !again[0].Time.Equal(own) || !again[1].Time.Equal(seenAt.Add(time.Hour)) {
			t.Errorf("events of another attempt: %+v", again)
		}
	}
	if !c.Events[1].Time.IsZero() || c.Checkpoint.LogSequence != 66 || c.StartRun.StartSequence != 5 {
		t.Error("the commit has changed")
	}
}

// Events of another writer than the run under way leave the places of the rows as the commit has them.
func TestEventsBesideARun(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		before cairn.SessionStatus
		c      driver.Commit
		beside bool
	}{
		"another writer": {cairn.SessionActive, driver.Commit{}, true},
		"between runs":   {cairn.SessionIdle, driver.Commit{}, false},
		"while it waits": {cairn.SessionPaused, driver.Commit{}, false},
		"the holder":     {cairn.SessionActive, driver.Commit{Guard: driver.Guard{Token: 100}}, false},
		"the next one":   {cairn.SessionActive, driver.Commit{Lease: driver.LeaseChange{Action: driver.LeaseTake}}, false},
		"an end":         {cairn.SessionActive, driver.Commit{Status: cairn.SessionFailed}, false},
		"a beginning":    {cairn.SessionIdle, driver.Commit{Status: cairn.SessionActive}, false},
		"another run":    {cairn.SessionActive, driver.Commit{StartRun: &cairn.Run{ID: "r2"}}, false},
	} {
		row := session()
		row.Status = at.before
		at.c.Events = []cairn.Event{{Version: 1}, {}}
		at.c.Checkpoint = &cairn.Checkpoint{ID: "c2", LogSequence: 8}
		d := work(t, &at.c, &plan.Seen{ID: "s", Row: row, Checkpoints: 1}, nothing(t))
		d.Logged(20)
		place, checkpoint := int64(22), int64(22)
		if at.beside {
			place, checkpoint = 9, 8
		}
		if d.Beside != at.beside || d.Places() == at.beside || len(d.Events) != 2 || d.Row.LogSequence != place || d.Checkpoint.LogSequence != checkpoint {
			t.Errorf("%s: beside %v, %d events, the row is at %d, the checkpoint at %d; want %v, 2, %d, %d", name, d.Beside, len(d.Events),
				d.Row.LogSequence, d.Checkpoint.LogSequence, at.beside, place, checkpoint)
		}
	}
}

// An event of an outbox keeps others from the outbox until it is drained.
func TestOutboxOfACommit(t *testing.T) {
	t.Parallel()
	row := session()
	box := row.Outbox
	c := &driver.Commit{Events: []cairn.Event{{Name: "next"}}, Outbox: true}
	if _, err := plan.Work(c, &plan.Seen{ID: "s", Row: row}, nothing(t)); !errors.Is(err, cairn.ErrStale) {
		t.Errorf("beside an outbox: %v", err)
	}
	c.Drained = box.Version
	d := work(t, c, &plan.Seen{ID: "s", Row: row}, nothing(t))
	if got := d.At(seenAt).Outbox; got.Version != d.Row.Version || got.Events[0].Name != "next" || !got.Events[0].Time.Equal(seenAt) || len(d.Events) > 0 {
		t.Errorf("the outbox is %+v", got)
	}
	for drained, want := range map[int64]*cairn.Outbox{0: box, 1: box, box.Version: nil} {
		if d := work(t, &driver.Commit{Drained: drained}, &plan.Seen{ID: "s", Row: row}, nothing(t)); d.Row.Outbox != want {
			t.Errorf("drained %d: %+v", drained, d.Row.Outbox)
		}
	}
}
