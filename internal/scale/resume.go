package scale

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// Handle is a store that can be closed.
type Handle interface {
	driver.Store
	Close() error
}

// window is the number of tokens that the model of a summarized conversation accepts: some thirteen turns until one is
// summarized.
const window = 8000

// BenchResume measures what a process that has never seen a session needs to call the model in the session's next turn,
// from Execute to the model's call, on a store that has just been opened. open opens the same data each time. The
// sessions have 100 and 10,000 messages, both summarized one turn ago, and 10,000 without a summary. They are measured
// alternately; the times are medians.
func BenchResume(b *testing.B, open func(testing.TB) Handle) {
	st := open(b)
	b.Cleanup(func() { _ = st.Close() }) // after the engines
	list := []*resumed{
		{name: "100", id: "short", at: talk(b, st, "short", 100, window)},
		{name: "10000", id: "long", at: talk(b, st, "long", 10_000, window)},
		{name: "whole", id: "whole", at: talk(b, st, "whole", 10_000, 0)},
	}
	b.ResetTimer()
	for n := 0; b.Loop(); n++ {
		for i := range list {
			list[(n+i)%len(list)].resume(b, open)
		}
	}
	b.ReportMetric(0, "ns/op") // includes all three sessions and the setup
	for _, r := range list {
		b.ReportMetric(float64(r.median().Microseconds())/1000, r.name+"-ms")
		b.ReportMetric(float64(r.bytes)/float64(len(r.times))/1000, r.name+"-KB")
	}
	b.ReportMetric(float64(list[1].median())/float64(list[0].median()), "ratio")
}

// talk makes a session of at least so many messages and returns its latest checkpoint. The last turn had the older
// messages summarized, if they ever are.
func talk(b *testing.B, st driver.Store, session string, messages, window int) string {
	c := newConversation(b, st, session, window)
	for {
		before := c.summaries
		c.Turn()
		cp, err := c.eng.Checkpoint(b.Context(), session)
		if err != nil {
			b.Fatal(err)
		}
		if cp.MessageCount >= messages && (window == 0 || c.summaries > before) {
			return cp.ID
		}
	}
}

// resumed is a session that is resumed at a checkpoint repeatedly.
type resumed struct {
	name, id, at string
	times        []time.Duration
	bytes        uint64
}

func (r *resumed) median() time.Duration {
	slices.Sort(r.times)
	return r.times[len(r.times)/2]
}

// resume makes a turn in a new engine on a newly opened store, and rewinds it.
func (r *resumed) resume(b *testing.B, open func(testing.TB) Handle) {
	ctx := context.Background()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	st := open(b)
	var asked time.Time
	var before, after runtime.MemStats
	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		asked = time.Now()
		runtime.ReadMemStats(&after)
		return scripted.Text("Welcome back.")
	})
	eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: model}}, nil)
	must(err)
	_, err = st.List(ctx, driver.SessionQuery{Limit: 1}) // opens the connection
	must(err)
	runtime.ReadMemStats(&before)
	began := time.Now()
	run, err := eng.Execute(ctx, r.id, "bot", cairn.Text("Where were we?"))
	must(err)
	_, err = run.Wait(ctx)
	must(err)
	r.times, r.bytes = append(r.times, asked.Sub(began)), r.bytes+after.TotalAlloc-before.TotalAlloc
	_, err = eng.Rewind(ctx, r.id, r.at)
	must(err)
	must(eng.Close(ctx))
	must(st.Close())
}
