package pgstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// TestWritersDoNotWaitForNotifications holds the server's lock for notifications, in a transaction of another
// application whose commit waits for a replica that does not exist. A store with a single connection appends, requests
// stops and closes all the same.
func TestWritersDoNotWaitForNotifications(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	s := openAt(t, server.URL()+"&synchronous_commit=local&pool_max_conns=1", nil)
	st := newStepper(t, s, "session", nil)
	if err := st.step(); err != nil {
		t.Fatal(err)
	}
	release := holdNotifications(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for n := range int64(50) {
		if last, err := s.log.Append(ctx, "log", driver.AnySequence, textEvent("words")); err != nil || last != n+1 {
			t.Fatalf("append %d ends at %d: %v", n+1, last, err)
		}
	}
	if err := s.RequestStop(ctx, "session", cairn.Stop{RunID: st.row.RunID, Kind: cairn.StopInterrupt}); err != nil {
		t.Errorf("request a stop: %v", err)
	}
	if err := st.step(); err != nil {
		t.Errorf("a step: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	release()
}

// holdNotifications makes every transaction that notifies wait for its lock, until release is called.
func holdNotifications(t *testing.T, server *testenv.PostgresServer) (release func()) {
	t.Helper()
	err := execAt(t, server.URL(), "CREATE TABLE elsewhere (n int)", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
		"SELECT pg_reload_conf()")
	if err != nil {
		t.Fatal(err)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for { // until the server has read its settings, transactions do not wait
			_ = execAt(t, server.URL(), "INSERT INTO elsewhere VALUES (1); NOTIFY elsewhere") // one transaction
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	const held = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	testclock.Await(t, "a transaction to wait", func() (waits bool) {
		oneValue(t, server.URL(), "SELECT EXISTS ("+held+")", &waits)
		return waits
	})
	return func() {
		close(over)
		if err := execAt(t, server.URL(), "SELECT pg_cancel_backend(pid) FROM ("+held+") h"); err != nil {
			t.Error(err)
		}
		<-done
	}
}

func textEvent(text string) cairn.Event { return cairn.Event{Type: cairn.EventTextDelta, Text: text} }

// twoStores returns two stores in one schema as two processes have them.
func twoStores(t *testing.T, poll time.Duration) (writer, reader *Store) {
	t.Helper()
	opts := &Options{Schema: newSchema(), PollInterval: poll}
	return openAt(t, testenv.FastPostgres(t), opts), openAt(t, testenv.FastPostgres(t), opts)
}

// exchange has one store append events and request stops, and the other one follow the log and watch the stops. Each
// write waits until the other store has noticed the previous one.
func exchange(t *testing.T, writer, reader *Store) {
	t.Helper()
	const rounds = 5 // a store that begins to listen looks twice for what it may have missed
	next, leave := iter.Pull2(reader.log.Follow(t.Context(), "log", 0))
	defer leave()
	for n := range int64(rounds) {
		if _, err := writer.log.Append(t.Context(), "log", driver.AnySequence, textEvent(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		if ev, err, _ := next(); err != nil || ev.Sequence != n+1 {
			t.Fatalf("the follower has event %d, want %d: %v", ev.Sequence, n+1, err)
		}
	}
	notice, forget := iter.Pull2(reader.WatchStops(t.Context()))
	defer forget()
	for n := range rounds {
		st := newStepper(t, writer, fmt.Sprint("session-", n), nil)
		if err := st.step(); err != nil {
			t.Fatal(err)
		}
		if err := writer.RequestStop(t.Context(), st.row.ID, cairn.Stop{RunID: st.row.RunID, Kind: cairn.StopAbort}); err != nil {
			t.Fatal(err)
		}
		if got, err, _ := notice(); err != nil || got.SessionID != st.row.ID {
			t.Fatalf("the watch has a stop of %q, want %q: %v", got.SessionID, st.row.ID, err)
		}
	}
}

// TestNotificationsReachOtherStores never lets the other store poll.
func TestNotificationsReachOtherStores(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t, time.Hour)
	exchange(t, writer, reader)
}

// TestLostNotificationsDelayReaders sends no notification, as a process that dies right after each of its commits.
func TestLostNotificationsDelayReaders(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t, 10*time.Millisecond)
	writer.notifier.close()
	exchange(t, writer, reader)
}

// TestNotificationsSurviveErrors lets every second attempt to send fail.
func TestNotificationsSurviveErrors(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t, time.Hour)
	var attempts atomic.Int64
	hook := func(text string) error {
		if text != sqlNotify {
			return nil
		}
		if attempts.Add(1)%2 == 1 {
			return cairn.Errorf(cairn.ErrUnavailable, "injected fault")
		}
		return nil
	}
	writer.intercept.Store(&hook)
	exchange(t, writer, reader)
	if attempts.Load() == 0 {
		t.Error("the store sent no notification")
	}
}

// TestNotificationsAreMerged lets several appends commit while a notification is being sent: the next one covers all of
// them, with one message for each log. Close sends the last one.
func TestNotificationsAreMerged(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	c, err := pgx.Connect(t.Context(), testenv.FastPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "LISTEN "+pgx.Identifier{s.channel()}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	want := func(list ...string) {
		t.Helper()
		var got []string
		for range list {
			n, err := c.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n.Payload)
		}
		for i := range list {
			list[i] = s.origin + " " + list[i]
		}
		if slices.Sort(got); !slices.Equal(got, list) {
			t.Errorf("messages %q, want %q", got, list)
		}
	}
	write := func(log string, count int) {
		t.Helper()
		if _, err := s.log.Append(t.Context(), log, driver.AnySequence, slices.Repeat([]cairn.Event{textEvent("words")}, count)...); err != nil {
			t.Fatal(err)
		}
	}
	sending, proceed := make(chan struct{}), make(chan struct{})
	hook := func(text string) error {
		if text == sqlNotify {
			sending <- struct{}{}
			<-proceed
		}
		return nil
	}
	s.intercept.Store(&hook)
	write("a", 1)
	<-sending
	for range 10 {
		write("a", 2)
		write("b", 1)
	}
	proceed <- struct{}{}
	want("1 1 a")
	<-sending
	write("c", 3)
	s.intercept.Store(nil)
	proceed <- struct{}{}
	want("10 10 b", "21 20 a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want("3 3 c")
}

func TestNoticesMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	list := []notice{{"me", "log", 5, 2}, {"me", "log", 3, 3}, {"me", "log", 9, 4}}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		var merged notice
		for _, i := range order {
			merged = merged.merge(list[i])
		}
		if want := (notice{"me", "log", 9, 9}); merged != want {
			t.Errorf("notices in the order %v merge to %+v, want %+v", order, merged, want)
		}
	}
	if merged := list[0].merge(notice{"another", "log", 6, 1}); merged != (notice{"", "log", 6, 3}) {
		t.Errorf("notices of two stores merge to %+v", merged)
	}
}

// TestNewsIsBounded checks that news of too many logs is reduced to one message, and does not lose a stop.
func TestNewsIsBounded(t *testing.T) {
	t.Parallel()
	var n news
	for i := range mostNotices {
		n.add(notice{"me", fmt.Sprint("log-", i), 1, 1})
	}
	if got := len(n.messages()); got != mostNotices {
		t.Errorf("%d messages for %d logs", got, mostNotices)
	}
	more := news{stop: true}
	more.add(notice{"me", "one more", 1, 1})
	n.merge(more)
	n.add(notice{"me", "another", 1, 1})
	if got := n.messages(); !slices.Equal(got, []string{stopNews, lookNews}) || len(n.logs) > 0 {
		t.Errorf("messages %q for too many logs", got)
	}
}
