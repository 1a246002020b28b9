package crosshost_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// callsVar, if set, makes the test binary a worker of the database that it names. The worker's agent consults the
// teller of the server that calleeVar names.
const (
	callsVar  = "CAIRN_TEST_CALLS"
	calleeVar = "CAIRN_TEST_CALLEE"
)

// listener is the agent that consults the teller.
func listener(callee string) (*cairn.Agent, error) {
	c, err := client.New(callee, nil)
	if err != nil {
		return nil, err
	}
	teller := client.RemoteAgent(c, client.RemoteOptions{Name: "teller", Description: "Tells stories."})
	return &cairn.Agent{Name: "listener", Tools: []cairn.Tool{cairn.SubAgent(teller)}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if r := req.Messages[len(req.Messages)-1].ToolResults(); len(r) > 0 {
			return scripted.Text("It said: " + string(r[0].Output))
		}
		return scripted.Call("teller", map[string]string{"input": "Tell me."})
	})}, nil
}

// calls runs a caller process.
func calls(database string) error {
	st, err := sqlitestore.Open(database, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	a, err := listener(os.Getenv(calleeVar))
	if err != nil {
		return err
	}
	eng, err := engine.New(st, []*cairn.Agent{a}, &engine.Options{LeaseTTL: time.Second, WorkInterval: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	if _, err := eng.Execute(context.Background(), "s", "listener", cairn.Text("Listen."), engine.WithRunID("first")); err != nil && !isTaken(err) {
		return err
	}
	return eng.Work(context.Background())
}

// isTaken reports whether the previous process has begun the run.
func isTaken(err error) bool {
	code := cairn.AsError(err).Code
	return code == cairn.ErrAlreadyRunning || code == cairn.ErrStale
}

// The text of an agent on another server arrives whole, each word once, although both processes are killed halfway
// through it. The agent is consulted once.
func TestRemoteAgentOutlivesBothProcesses(t *testing.T) {
	t.Parallel()
	far, near, goesOn := testenv.Postgres(t), filepath.Join(t.TempDir(), "near.db"), filepath.Join(t.TempDir(), "goes-on")
	var target atomic.Pointer[url.URL]
	at := func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		target.Store(u)
	}
	address, callee := startServer(t, far, goesOn, shortLease)
	at(address)
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
		ErrorLog:     log.New(io.Discard, "", 0), // bodies break off when the processes are killed
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	t.Cleanup(proxy.Close)

	st, err := sqlitestore.Open(near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	a, err := listener(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := engine.New(st, []*cairn.Agent{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(context.Background()) })

	killCaller := startLife(t, callsVar+"="+near, calleeVar+"="+proxy.URL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testclock.Await(t, "the session to exist", func() bool { _, err := reader.Session(ctx, "s"); return err == nil })
	var text, attempt string
	middles, end := 0, false
	for ev, err := range reader.Events(ctx, "s", cairn.Cursor{}) {
		if err != nil {
			t.Fatalf("after %q: %v", text+attempt, err)
		}
		switch {
		case ev.SessionID == "s" && ev.Type == cairn.EventRunEnd:
			end = true
			if ev.Status != cairn.RunCompleted {
				t.Errorf("it ended %s: %v", ev.Status, ev.Error)
			}
		case ev.Agent != "teller":
		case ev.Type == cairn.EventTextDelta:
			attempt += ev.Text
		case ev.Type == cairn.EventStepDiscarded:
			attempt = ""
		case ev.Type == cairn.EventStepCommitted:
			text, attempt = text+attempt, ""
		}
		if end {
			break
		}
		if attempt != beginning || ev.Type != cairn.EventTextDelta {
			continue
		}
		switch middles++; middles {
		case 1: // the caller dies, and another one takes over
			killCaller()
			killCaller = startLife(t, callsVar+"="+near, calleeVar+"="+proxy.URL)
		case 2: // the second caller is halfway as well: the server dies, and another one takes over
			callee.Process.Kill()
			address, callee = startServer(t, far, goesOn, shortLease)
			at(address)
		case 3: // the model there has begun again
			if err := os.WriteFile(goesOn, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if middles < 3 || text != beginning+ending {
		t.Errorf("after %d beginnings it said %q", middles, text)
	}
	run, err := reader.Attach(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(ctx); err != nil || !strings.Contains(res.Text, beginning+ending) || res.Turn != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if list := tellers(t, far, goesOn); len(list) != 1 || list[0].Turn != 1 {
		t.Errorf("the server has other than one session with one turn: %+v", list)
	}
}

// tellers returns the sessions of the teller, the newest first.
func tellers(t *testing.T, database, goesOn string) []cairn.Session {
	t.Helper()
	st, err := pgstore.Open(t.Context(), database, &pgstore.Options{Schema: schemaOf(goesOn)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	page, err := st.List(t.Context(), driver.SessionQuery{Agent: "teller"})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}
