package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/jackc/pgx/v5"
)

// openPair opens two stores of a server, of which only the first notifies other processes. Both listen.
func openPair(b *testing.B, url string) (pair [2]*Store) {
	b.Helper()
	for i := range pair {
		pair[i] = openAt(b, url, &Options{Schema: newSchema()})
		ctx, cancel := context.WithCancel(b.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			for range pair[i].WatchStops(ctx) {
			}
		})
		b.Cleanup(func() { cancel(); watching.Wait() })
	}
	pair[1].notifier.close()
	return pair
}

// BenchmarkNotify alternates between appending with and without notifications of other processes, a log for each
// writer. It reports the rate with them, also as a share of the other rate, and in how many samples a connection waited
// for the server's lock for notifications.
func BenchmarkNotify(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			url := testenv.NewPostgres(b).URL()
			list := []cairn.Event{textEvent("a few words"), textEvent("and a few more")}
			var sides [2]appends
			for i, s := range openPair(b, fmt.Sprint(url, "&pool_max_conns=", writers)) {
				sides[i] = appends{b, s.log, list, writers}
				warmUp(b, sides[i])
			}
			waits := sampleLockWaits(b, url)
			var shares []float64
			var rate float64
			for b.Loop() {
				with, without := drive(b, sides[0], slice), drive(b, sides[1], slice)
				shares, rate = append(shares, 100*with/without), rate+with
			}
			slices.Sort(shares)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate/float64(len(shares)), "appends/s")
			b.ReportMetric(shares[len(shares)/2], "%silent")
			b.ReportMetric(float64(waits()), "lock-waits")
		})
	}
}

// BenchmarkAnswers streams 300 answers of 100 words in 2.5 s at once, with the default pool and in turn with and
// without notifications of other processes. It reports how long all of them take.
func BenchmarkAnswers(b *testing.B) {
	const answers, words, pace = 300, 100, 25 * time.Millisecond
	url := testenv.NewPostgres(b).URL()
	agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text(strings.Repeat("word ", words)).Pace(pace)
	})}
	var sides [2]*engine.Engine
	for i, s := range openPair(b, url) {
		eng, err := engine.New(s, []*cairn.Agent{agent}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = eng.Close(context.Background()) })
		sides[i] = eng
	}
	waits := sampleLockWaits(b, url)
	var took [2]time.Duration
	for b.Loop() {
		for i, eng := range sides {
			began := time.Now()
			var all sync.WaitGroup
			for n := range answers {
				all.Go(func() {
					run, err := eng.Execute(b.Context(), fmt.Sprint("session-", n), "bot", cairn.Text("go"))
					if err == nil {
						_, err = run.Wait(b.Context())
					}
					if err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[0].Seconds()/float64(b.N), "s")
	b.ReportMetric(took[1].Seconds()/float64(b.N), "s-silent")
	b.ReportMetric(float64(waits()), "lock-waits")
}

// sampleLockWaits looks every 10 ms for connections that wait for the server's lock for notifications. waits stops it
// and returns how often it saw one.
func sampleLockWaits(b *testing.B, url string) (waits func() int) {
	b.Helper()
	c, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var sampling sync.WaitGroup
	total := 0
	sampling.Go(func() {
		defer c.Close(context.WithoutCancel(ctx))
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			var n int
			err := c.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'object'").Scan(&n)
			if err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
			total += n
		}
	})
	return func() int {
		cancel()
		sampling.Wait()
		return total
	}
}
