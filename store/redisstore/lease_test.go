package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Steps store the end of the lease in a form of their own. The writing process gets the same end as other processes
// read, however the lease was changed before, and a session is due when its shortest lease ends.
func TestEndOfTheLeaseAfterSteps(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	ctx := context.Background()
	row := newStepper(t, s, "session", nil).row
	n := 0
	step := func(c driver.LeaseChange) {
		n++
		var err error
		row, err = s.Commit(ctx, row.ID, &driver.Commit{Guard: driver.Guard{Version: row.Version}, Lease: c,
			Checkpoint: &cairn.Checkpoint{ID: fmt.Sprint("cp-", n), StepID: fmt.Sprint("step-", n), RunID: "run"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	renew := func(ttl time.Duration) driver.LeaseChange {
		return driver.LeaseChange{Action: driver.LeaseRenew, TTL: ttl}
	}
	ends := func(what string, want time.Time) {
		t.Helper()
		read, err := driver.Load(ctx, s, row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !read.Lease.Until.Equal(want) || !row.Lease.Until.Equal(want) {
			t.Errorf("%s: the lease ends at %s, and the process got %s; want %s", what, read.Lease.Until, row.Lease.Until, want)
		}
	}
	for range 2 {
		step(renew(time.Minute))
		ends("renewed", row.UpdatedAt.Add(time.Minute))
	}
	until := row.Lease.Until
	for range 2 {
		step(driver.LeaseChange{})
		ends("kept", until)
	}
	if _, err := s.Renew(ctx, row.ID, row.Lease.Token, time.Hour); err != nil {
		t.Fatal(err)
	}
	step(driver.LeaseChange{})
	if left := time.Until(row.Lease.Until); left < 50*time.Minute {
		t.Errorf("after a renewal for an hour and a step the lease ends in %s", left)
	}
	ends("kept after a heartbeat", row.Lease.Until)
	step(renew(0))
	ends("renewed for no time", row.UpdatedAt)
	page, err := s.Due(ctx, driver.DueQuery{})
	due := page.Items
	if err != nil {
		t.Fatal(err)
	}
	if len(due) != 1 || due[0].SessionID != row.ID || !due[0].Since.Equal(row.Lease.Until) {
		t.Errorf("due are %v, want the session since %s", due, row.Lease.Until)
	}
}

// Renewing a lease does not change the index of due sessions. A lapsed lease is nevertheless found at the first look.
func TestLeaseThatRanOutIsDueAtTheFirstLook(t *testing.T) {
	t.Parallel()
	s, ctx := openNew(t), t.Context()
	row, err := s.Commit(ctx, "session", &driver.Commit{Create: &cairn.Session{Agent: "agent"}, StartRun: &cairn.Run{ID: "run", Agent: "agent"},
		Status: cairn.SessionActive, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(ctx, row.ID, row.Lease.Token, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for row.Running(row.AsOf) || row.Lease.Until.Equal(row.UpdatedAt.Add(time.Millisecond)) {
		if row, err = driver.Load(ctx, s, row.ID); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Due(ctx, driver.DueQuery{})
	if err != nil || len(page.Items) != 1 || !page.Items[0].Since.Equal(row.Lease.Until) {
		t.Errorf("due are %+v, want the session since %s: %v", page.Items, row.Lease.Until, err)
	}
}
