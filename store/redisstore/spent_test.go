package redisstore

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// sessionWriter repeats what one writer of a session does.
type sessionWriter struct {
	*stepper
	runs int
}

// turn begins a run, commits a step and ends the run with another one.
func (w *sessionWriter) turn() {
	w.runs++
	run := &cairn.Run{ID: "run-" + strconv.Itoa(w.runs), Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}
	w.commit(&driver.Commit{Guard: driver.Guard{Idle: true, Version: w.row.Version}, StartRun: run, Messages: stepMessages[:1],
		Status: cairn.SessionActive, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Minute}})
	w.step()
	w.n++
	n := strconv.Itoa(w.n)
	end := *run
	end.Status = cairn.RunCompleted
	w.commit(&driver.Commit{Guard: driver.Guard{Version: w.row.Version, Token: w.row.Lease.Token}, EndRun: &end,
		Messages: stepMessages[:1], Step: 2, Checkpoint: &cairn.Checkpoint{ID: "cp-" + n, StepID: "step-" + n, RunID: run.ID, Step: 2},
		Status: cairn.SessionIdle, Usage: cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1}, DropStaged: true,
		LogSequence: int64(10 * w.n), Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
}

// context adds a message from outside.
func (w *sessionWriter) context() {
	w.commit(&driver.Commit{Guard: driver.Guard{Version: w.row.Version}, Messages: stepMessages[:1]})
}

func (w *sessionWriter) commit(c *driver.Commit) {
	row, err := w.st.Commit(w.b.Context(), w.row.ID, c)
	if err != nil {
		w.b.Error(err)
		return
	}
	w.row = row
}

// BenchmarkSpent measures the processor time of the client and the server for what a session's writer does.
func BenchmarkSpent(b *testing.B) {
	server := testenv.RedisServer(b, "--appendonly", "no")
	kinds := map[string]func(w *sessionWriter) func(){
		"step":    func(w *sessionWriter) func() { return w.step },
		"turn":    func(w *sessionWriter) func() { return w.turn },
		"context": func(w *sessionWriter) func() { return w.context },
	}
	for _, name := range []string{"step", "turn", "context"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				b.ReportAllocs()
				st := openAt(b, server.URL(), &Options{Prefix: newPrefix()})
				var all []func()
				for i := range writers {
					w := &sessionWriter{stepper: newStepper(b, st, fmt.Sprint("session-", i), nil)}
					if name == "turn" {
						w.commit(&driver.Commit{Status: cairn.SessionIdle, EndRun: &cairn.Run{ID: "run", Status: cairn.RunCompleted}, Lease: driver.LeaseChange{Action: driver.LeaseRelease}})
					}
					all = append(all, kinds[name](w))
				}
				var spent testenv.Spent
				b.ResetTimer()
				spent.Add(b, server.Server, func() int {
					var group sync.WaitGroup
					for _, do := range all {
						group.Go(func() {
							for range (b.N + writers - 1) / writers {
								do()
							}
						})
					}
					group.Wait()
					return (b.N + writers - 1) / writers * writers
				})
				spent.Report(b, name)
			})
		}
	}
}
