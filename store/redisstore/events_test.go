package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// says returns events of a session, each with a name and without a time.
func says(session string, names ...string) (list []cairn.Event) {
	for _, name := range names {
		list = append(list, cairn.Event{Type: cairn.EventCustom, SessionID: session, Name: name})
	}
	return list
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantNames checks the names of a log's events, whose sequences have no gap.
func wantNames(t *testing.T, s *Store, log, want string) {
	t.Helper()
	list, err := s.log.Read(t.Context(), log, 0, 0)
	var got []string
	for i, ev := range list {
		got = append(got, ev.Name)
		if ev.Sequence != int64(i+1) {
			t.Errorf("event %d has the sequence %d", i+1, ev.Sequence)
		}
	}
	if names := strings.Join(got, " "); err != nil || names != want {
		t.Errorf("the log has %q (%v), want %q", names, err, want)
	}
}

// stepWith returns the next step of a session with events that have the step's number.
func stepWith(row *cairn.Session, n int) *driver.Commit {
	name := fmt.Sprint(n)
	return &driver.Commit{Guard: driver.Guard{Version: row.Version}, Messages: stepMessages, Step: n, Events: says(row.ID, name, name),
		Checkpoint: &cairn.Checkpoint{ID: "cp-" + name, StepID: "step-" + name, RunID: "run", Step: n},
		Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Minute}}
}

// A commit whose answer was lost is sent again and its events are added once, by either script. Followers get them.
func TestLostAnswerOfACommitWithEvents(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]cutting{"request": cutRequest, "answer": cutAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			row := newStepper(t, s, "session", nil).row
			p.setCut(everyOther(how, "attempt"))
			var want []string
			next := int64(1)
			for n := range 30 {
				c := stepWith(row, n+1)
				if n%3 == 0 { // neither a step nor a run
					c.Checkpoint, c.Guard = nil, driver.Guard{}
				}
				c.Events[0].Text = "attempt" // so that it is cut
				row = must(s.Commit(t.Context(), "session", c))
				want = append(want, fmt.Sprint(n+1), fmt.Sprint(n+1))
				if row.LogSequence != int64(2*n+2) {
					t.Fatalf("after commit %d the row is at %d", n, row.LogSequence)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				for ev, err := range s.log.Follow(ctx, row.Log(), next-1) {
					if err != nil || ev.Sequence != next {
						t.Errorf("followed %d, %v, want %d", ev.Sequence, err, next)
					}
					if next++; err != nil || next > row.LogSequence {
						break
					}
				}
				cancel()
			}
			p.setCut(nil)
			wantNames(t, s, row.Log(), strings.Join(want, " "))
		})
	}
}

// A follower gets the events of a commit whose answer was lost, by either script.
func TestFollowerOfACommitWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"step", "write"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, p := throughProxy(t)
			row := newStepper(t, s, "session", nil).row
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			got := make(chan string)
			go func() {
				defer close(got)
				for ev, err := range s.log.Follow(ctx, row.Log(), 0) {
					if err != nil {
						return
					}
					got <- ev.Name
				}
			}()
			for _, name := range []string{"first", "second"} { // from then on it waits for a notice
				must(s.log.Append(ctx, row.Log(), driver.AnySequence, says("session", name)...))
				if heard := <-got; heard != name {
					t.Fatalf("followed %q, want %q", heard, name)
				}
			}
			must(scriptStep.script.Load(ctx, s.client).Result()) // otherwise the first answer says that it is not there
			p.setCut(everyOther(cutAnswer, "attempt"))
			c := stepWith(row, 1)
			if kind == "write" {
				c.Checkpoint, c.Guard = nil, driver.Guard{}
			}
			c.Events[0].Text = "attempt"
			must(s.Commit(ctx, "session", c))
			for range c.Events {
				if heard := <-got; heard != "1" {
					t.Errorf("followed %q, want the events of the commit", heard)
				}
			}
			cancel()
			<-got
			wantNames(t, s, row.Log(), "first second 1 1")
		})
	}
}

// Events without a time get that of their commit, also those in an outbox and those of a branch. The process that wrote
// them, its followers and other processes see the same.
func TestTimesOfEvents(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	row := newStepper(t, s, "session", nil).row
	row = must(s.Commit(t.Context(), "session", stepWith(row, 1)))
	for _, ev := range must(other.log.Read(t.Context(), row.Log(), 0, 0)) {
		if !ev.Time.Equal(row.UpdatedAt) {
			t.Errorf("an event of a step is of %v, want %v", ev.Time, row.UpdatedAt)
		}
	}
	given := time.UnixMicro(5).UTC()
	c := stepWith(row, 2)
	c.Outbox, c.Events[0].Time = true, given
	row = must(s.Commit(t.Context(), "session", c))
	made := row.UpdatedAt
	wantBox := func(row *cairn.Session) {
		t.Helper()
		if box := row.Outbox; box == nil || len(box.Events) != 2 || !box.Events[0].Time.Equal(given) || !box.Events[1].Time.Equal(made) {
			t.Errorf("the outbox is %+v, want the times %v and %v", box, given, made)
		}
	}
	wantBox(row)
	wantBox(must(driver.Load(t.Context(), other, "session")))
	for i, by := range []*Store{s, other} { // it stays as it is
		next := stepWith(row, 3+i)
		next.Events = nil
		row = must(by.Commit(t.Context(), "session", next))
		wantBox(row)
		wantBox(must(driver.Load(t.Context(), second(t, s), "session")))
	}
	wantNames(t, s, row.Log(), "1 1")
}

// A step that takes the lease fences off the holder before, as any other commit with events does.
func TestStepThatTakesTheLeaseFences(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	row := newStepper(t, s, "session", nil).row
	old := driver.Writer{Session: "session", Token: row.Lease.Token, ID: "writer", Batch: 1}
	must(s.log.AppendFenced(t.Context(), row.Log(), 0, old, says("session", "live")...))
	c := stepWith(row, 1)
	c.Lease = driver.LeaseChange{Action: driver.LeaseTake, Owner: "next", TTL: time.Minute}
	must(s.Commit(t.Context(), "session", c))
	old.Batch = 2
	_, err := s.log.AppendFenced(t.Context(), row.Log(), driver.AnySequence, old, says("session", "late")...)
	if !errors.Is(err, cairn.ErrFenced) {
		t.Errorf("an append of the holder before: %v", err)
	}
	wantNames(t, s, row.Log(), "live 1 1")
}

// The events of commits are kept for as long as others.
func TestRetentionOfEventsOfCommits(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.Redis(t), &Options{Prefix: newPrefix(), EventRetention: time.Hour})
	row := newStepper(t, s, "session", nil).row
	stream := s.buckets[0] + "e:" + row.Log()
	for n := range 2 {
		c := stepWith(row, n+1)
		if n == 1 {
			c.Checkpoint = nil
		}
		row = must(s.Commit(t.Context(), "session", c))
		if left := s.client.PTTL(t.Context(), stream).Val(); left <= 0 || left > time.Hour {
			t.Errorf("after commit %d the events are kept for %v", n+1, left)
		}
		s.client.Persist(t.Context(), stream)
	}
}

// On a cluster the events of a child are on the log of its tree, with its root.
func TestClusterEventsOfChildren(t *testing.T) {
	t.Parallel()
	s := openCluster(t)
	other := second(t, s)
	root, child := family(s, 1)
	top := must(s.Commit(t.Context(), root, &driver.Commit{Create: &cairn.Session{Agent: "support"}, Events: says(root, "root")}))
	row := must(s.Commit(t.Context(), child, &driver.Commit{Create: &cairn.Session{Agent: "helper", ParentID: root, RootID: root, Incarnation: top.Incarnation},
		Events: says(child, "child")}))
	for n, by := range []*Store{s, other, s} {
		row = must(by.Commit(t.Context(), child, stepWith(row, n+1)))
	}
	must(other.Commit(t.Context(), root, &driver.Commit{Events: says(root, "end")}))
	wantNames(t, other, top.Log(), "root child 1 1 2 2 3 3 end")
	if row.LogSequence != 8 {
		t.Errorf("the child is at %d, want 8", row.LogSequence)
	}
}

// A commit whose events cannot be announced stands, and followers in other processes poll.
func TestEventsOfCommitsWithoutChannels(t *testing.T) {
	t.Parallel()
	l := newLimited(t, granted("cairn")...)
	logger, logged := warnings()
	writer, reader := openAt(t, l.url, &Options{Logger: logger}), openAt(t, l.url, nil)
	row := newStepper(t, writer, "session", nil).row
	l.allow(t, "resetchannels")
	n := 0
	commit := func() {
		n++
		c := stepWith(row, n)
		if n%2 == 0 {
			c.Checkpoint = nil
		}
		row = must(writer.Commit(t.Context(), "session", c))
	}
	commit()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ev, err := range reader.log.Follow(ctx, row.Log(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Sequence == 6 {
			break
		}
		if ev.Sequence%2 == 0 {
			commit()
		}
	}
	if n := logged("lacks the right to"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
}
