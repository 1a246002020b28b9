package dostore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// BenchmarkAgainst compares the commit of a step with writes by hand, in turn: the same rows in one write to another
// object, without and with the copy of the session in the directory.
func BenchmarkAgainst(b *testing.B) {
	worker := testenv.WorkerServer(b)
	s := openAt(b, "do+insecure://"+worker.Address+"/bench")
	ctx := b.Context()
	row, err := s.Commit(ctx, "session", &driver.Commit{Create: &cairn.Session{Agent: "support"}, Status: cairn.SessionActive,
		StartRun: &cairn.Run{ID: "run", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning},
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}, Events: events("begin")})
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("some words of a reply ", 40)
	reply := []cairn.Message{{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(text)}, RunID: "run"}}
	took := map[string][]time.Duration{}
	measure := func(way string, do func() error) {
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took[way] = append(took[way], time.Since(begin))
	}
	byHand := func(key string, i int, share []shared) error {
		r := &rows{owner: "owner"}
		raw := r.put(r.owner, numbered("message", int64(i)), "message", &reply[0])
		r.text(r.owner, headKey, raw)
		for _, kind := range []string{"state", "checkpoint", "named", "step"} {
			r.text(r.owner, numbered(kind, int64(i)), "{}")
		}
		r.text("log", numbered("batch", int64(i)), raw)
		r.text("log", logKey, "{}")
		r.Share = share
		_, _, err := s.tree(key).write(ctx, fixed(&r.request))
		return err
	}
	for i := 0; b.Loop(); i++ {
		measure("store", func() error {
			c := &driver.Commit{Guard: driver.Guard{Token: row.Lease.Token, Version: row.Version}, Step: row.Step + 1, Messages: reply,
				State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: json.RawMessage("1")}}},
				Checkpoint: &cairn.Checkpoint{ID: fmt.Sprint("c", i), RunID: "run", StepID: fmt.Sprint("s", i), Step: row.Step + 1}, Events: events(text)}
			row, err = s.Commit(ctx, "session", c)
			return err
		})
		measure("by hand", func() error { return byHand("by-hand", i, nil) })
		measure("by hand, listed", func() error {
			return byHand("listed", i, []shared{{Source: "listed", Value: &text, Lists: [][2]string{{"list", "key"}}}})
		})
	}
	for way, list := range took {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds()), strings.ReplaceAll(way, " ", "_")+"-µs")
	}
}
