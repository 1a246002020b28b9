package server

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// When a process is stopped during a turn, its clients reconnect to another process and receive each event once.
// The turn's step completes within the engine's time to close; without such time it is cut off. The other process
// takes over the turn at once, long before the lease lapses.
func TestDrainHandsOver(t *testing.T) {
	t.Run("with time", func(t *testing.T) { drained(t, false) })
	t.Run("at once", func(t *testing.T) { drained(t, true) })
}

func drained(t *testing.T, atOnce bool) {
	atWork, gate := make(chan struct{}), make(chan struct{})
	var began sync.Once
	var times atomic.Int64
	slow := cairn.Func("slow", "Takes its time.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		times.Add(1)
		began.Do(func() { close(atWork) })
		select {
		case <-gate:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{slow}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role == cairn.RoleUser {
			return scripted.Call("slow", struct{}{})
		}
		return scripted.Text("so it is")
	})}
	one := newWorldOf(t, nil, agent)
	eng, err := engine.New(one.st, []*cairn.Agent{agent}, &engine.Options{WorkInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- eng.Work(ctx) }()
	t.Cleanup(func() { stop(); <-worked; eng.Close(context.Background()) })
	h, err := New(eng, &one.h.opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(newContract(t).around(h))
	t.Cleanup(srv.Close)
	t.Cleanup(h.Drain)

	begun := want[client.Started](one, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	var ids, types []string
	// follow reads the run's events after the known ones, and reports whether the stream was cut.
	follow := func(url string, opened func()) (cut bool) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/sse?session_id=s&run_id="+begun.RunID, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		if len(ids) > 0 {
			req.Header.Set("Last-Event-ID", ids[len(ids)-1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids = append(ids, id)
			}
			if typ, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				types = append(types, typ)
				if typ == string(cairn.EventToolStart) && opened != nil {
					opened()
				}
			}
		}
		return lines.Err() != nil
	}
	closed := make(chan error, 1)
	cut := follow(one.url, func() {
		<-atWork
		one.h.Drain()
		grace, over := context.WithCancel(context.Background())
		if atOnce {
			over()
		}
		go func() { closed <- one.eng.Drain(grace); over() }()
	})
	if !cut {
		t.Error("the stream of the process that stops ends as if it were whole")
	}
	if p := want[problemBody](one, 503, "a", "GET", "/readyz", nil); p.Code != "closed" {
		t.Errorf("it takes requests: %+v", p)
	}
	if atOnce {
		if err := <-closed; err == nil {
			t.Error("no run was released")
		}
		close(gate)
	} else {
		close(gate)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
	if follow(srv.URL, nil) {
		t.Error("the stream of the other process is cut")
	}
	count := func(typ string) (n int) {
		for i := range types {
			if types[i] == typ {
				n++
			}
		}
		return n
	}
	void := count("step_start") > count("step_committed") // a step that had begun
	if types[0] != "run_start" || types[len(types)-1] != "run_end" || void != atOnce || count("step_discarded") != 1 {
		t.Errorf("the client got %v", types)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != len(types) {
		t.Errorf("an event came twice: %v", ids)
	}
	if atOnce != (times.Load() == 2) {
		t.Errorf("the tool ran %d times", times.Load())
	}
	row, err := eng.Session(t.Context(), "s")
	if err != nil || row.Status != cairn.SessionCompleted || row.Turn != 1 || row.Usage.ToolCalls != 1 {
		t.Errorf("got %+v, %v", row, err)
	}
}
