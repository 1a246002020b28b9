package pgstore

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
)

const (
	readLogs    = 200
	readersEach = 50
)

// BenchmarkReaders makes 10,000 readers in one process follow the logs of 200 sessions. Each iteration is a turn of
// every session at once, driven by the readers' process or by another one, and then a turn of one session alone. It
// reports the delay between the last event of a turn and its arrival at the last reader of the log: the worst and the
// median of the concurrent turns, and that of the single turn.
func BenchmarkReaders(b *testing.B) {
	for _, writer := range []string{"here", "elsewhere"} {
		b.Run("turns="+writer, func(b *testing.B) { benchReaders(b, writer == "elsewhere") })
	}
}

func benchReaders(b *testing.B, elsewhere bool) {
	schema, url := newSchema(), testenv.Postgres(b)+"&pool_max_conns=16"
	agent := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text("this is what there is to say about it").Pace(5 * time.Millisecond)
	})}
	process := func() *engine.Engine {
		eng, err := engine.New(openAt(b, url, &Options{Schema: schema}), []*cairn.Agent{agent}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = eng.Close(context.Background()) })
		return eng
	}
	here := process()
	writer := here
	if elsewhere {
		writer = process()
	}
	turn := func(session int) {
		run, err := writer.Execute(b.Context(), strconv.Itoa(session), "bot", cairn.Text("go"))
		if err == nil {
			_, err = run.Wait(b.Context())
		}
		if err != nil {
			b.Error(err)
		}
	}
	turns := func() {
		var all sync.WaitGroup
		for session := range readLogs {
			all.Go(func() { turn(session) })
		}
		all.Wait()
	}
	turns() // so that there are sessions
	ctx, leave := context.WithCancel(b.Context())
	var reading sync.WaitGroup
	arrivals := make(chan arrival, readLogs*readersEach)
	for session := range readLogs {
		id := strconv.Itoa(session)
		row, err := here.Session(ctx, id)
		if err != nil {
			b.Fatal(err)
		}
		for range readersEach {
			reading.Go(func() {
				for ev, err := range here.Events(ctx, id, cairn.After(row.LogSequence)) {
					if err != nil {
						b.Error(err)
						return
					}
					if ev.Type == cairn.EventRunEnd {
						arrivals <- arrival{id, ev.RunID, time.Since(ev.Time)}
					}
				}
			})
		}
	}
	collect(b, arrivals, readLogs) // the first turns' ends
	var alone, together []time.Duration
	b.ResetTimer()
	for range b.N {
		turns()
		together = append(together, collect(b, arrivals, readLogs)...)
		turn(7)
		alone = append(alone, collect(b, arrivals, 1)...)
	}
	b.StopTimer()
	leave()
	reading.Wait()
	slices.Sort(together)
	b.ReportMetric(float64(together[len(together)-1].Milliseconds()), "ms-worst")
	b.ReportMetric(float64(together[len(together)/2].Milliseconds()), "ms-median")
	b.ReportMetric(float64(slices.Max(alone).Milliseconds()), "ms-alone")
}

// arrival is the end of a run that a reader has had, and how old it was.
type arrival struct {
	session, run string
	age          time.Duration
}

// collect waits until every reader of the logs of a number of runs has had their end, and returns how long that took
// for each.
func collect(b *testing.B, arrivals <-chan arrival, runs int) []time.Duration {
	worst := map[string]time.Duration{}
	limit := time.After(time.Minute)
	for n := range runs * readersEach {
		select {
		case a := <-arrivals:
			worst[a.run] = max(worst[a.run], a.age)
		case <-limit:
			b.Fatalf("only %d readers received the end of their turn within a minute", n)
		}
	}
	list := make([]time.Duration, 0, runs)
	for _, d := range worst {
		list = append(list, d)
	}
	return list
}
