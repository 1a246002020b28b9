package traces_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

// Two processes at a time drive runs and export spans. One after the other is killed, and another one started in its place:
// the survivor takes over its runs, its right to export, or both. In the end the collector has exactly one span of each
// committed fact of the event logs, with the same content each time it came, and marks those of discarded attempts.
func TestTortureOfExporters(t *testing.T) {
	c := otlptest.New(t, nil)
	file := filepath.Join(t.TempDir(), "cairn.db")
	eng, x := open(t, file, c, tracing())
	kills, began := testenv.Kills(t, 10, 200), time.Now()
	alive := []*exec.Cmd{start(t, "work", file, c.URL, false), start(t, "work", file, c.URL, false)}
	for n := range kills {
		done := c.Received()
		testclock.Await(t, "the processes to export", func() bool { return c.Received() > done+20 })
		if err := testclock.Pause(t.Context(), rand.N(400*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		kill(alive[n%2])
		alive[n%2] = start(t, "work", file, c.URL, false)
	}
	for _, cmd := range alive {
		kill(cmd)
	}
	lasted := time.Since(began)
	var sessions []string
	for _, row := range must(eng.Sessions(t.Context(), store.SessionQuery{}))(t).Items {
		sessions = append(sessions, row.ID)
	}
	settle(t, eng, sessions)
	flushed(t, x)

	want := map[string]int{}
	for _, id := range sessions {
		for ev := range events(t, eng, id) {
			switch {
			case ev.Type == cairn.EventRunEnd:
				want["invoke_agent "+ev.RunID]++
			case ev.Type == cairn.EventUsage && ev.Step > 0:
				want[fmt.Sprint("chat ", ev.RunID, " ", ev.Step)] += len(ev.ModelCalls())
			case ev.Type == cairn.EventToolEnd:
				want[fmt.Sprint("execute_tool ", ev.RunID, " ", ev.CallID)]++
			}
		}
	}
	got, void := map[string]int{}, 0
	for _, s := range c.Spans() {
		op := otlptest.Attribute(s, "gen_ai.operation.name")
		if otlptest.Attribute(s, "cairn.discarded") == "true" {
			void++
			continue
		}
		if otlptest.Attribute(s, "gen_ai.conversation.id") == "" || otlptest.Attribute(s, "session.id") == "" || otlptest.Attribute(s, "user.id") != "ann" {
			t.Errorf("a span without its conversation or user: %v", s)
		}
		name := op + " " + otlptest.Attribute(s, "cairn.run.id")
		switch op {
		case "chat":
			name += " " + otlptest.Attribute(s, "cairn.step")
		case "execute_tool":
			name += " " + otlptest.Attribute(s, "gen_ai.tool.call.id")
		}
		got[name]++
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d spans, want %d", name, got[name], n)
		}
	}
	for name, n := range got {
		if want[name] != n {
			t.Errorf("%s: %d spans, want %d", name, n, want[name])
		}
	}
	if changed := c.Changed(); len(changed) > 0 {
		t.Errorf("%d spans came again with other content, such as %s", len(changed), changed[0])
	}
	facts, spans, verdict := 0, len(c.Spans()), "one span of each fact"
	for _, n := range want {
		facts += n
	}
	if t.Failed() {
		verdict = "**broken**"
	}
	testenv.Report(t, fmt.Sprintf("%d in %s, by SIGKILL", kills+len(alive), lasted.Round(time.Second)), fmt.Sprint(facts),
		fmt.Sprintf("%d, %d of them of discarded attempts; %d received again", spans, void, c.Received()-spans), verdict)
}
