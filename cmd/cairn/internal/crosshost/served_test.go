package crosshost_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/pgstore"
)

// servesVar, if set, makes the test binary a server of the database that it names, in the schema of schemaVar. Its
// agents stop halfway until the file that goesOnVar names exists. Its leases last for leaseVar.
const (
	servesVar = "CAIRN_TEST_SERVES"
	schemaVar = "CAIRN_TEST_SCHEMA"
	goesOnVar = "CAIRN_TEST_GOES_ON"
	leaseVar  = "CAIRN_TEST_LEASE"
)

// The two halves of the storyteller's answer.
const beginning, ending = "Once upon a time there was", " a server that was killed."

// serves runs a server process, which is also a worker, until it gets SIGTERM.
func serves(url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := pgstore.Open(ctx, url, &pgstore.Options{Schema: os.Getenv(schemaVar)})
	if err != nil {
		return err
	}
	defer st.Close()
	goesOn := os.Getenv(goesOnVar)
	lease, err := time.ParseDuration(os.Getenv(leaseVar))
	if err != nil {
		return err
	}
	eng, err := engine.New(st, []*cairn.Agent{storyteller(goesOn), working(goesOn)},
		&engine.Options{LeaseTTL: lease, WorkConcurrency: 100, WorkInterval: 200 * time.Millisecond, CloseGrace: time.Minute})
	if err != nil {
		return err
	}
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, RequestsPerMinute: -1, StreamsPerUser: -1})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	web := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer context.AfterFunc(ctx, h.Drain)()
	if err := eng.Serve(ctx); err != nil {
		return err
	}
	if err := web.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shortLease is the lease of servers that are killed.
const shortLease = 4 * time.Second

// until returns once a file exists.
func until(path string) {
	_ = testclock.Poll(context.Background(), func() bool { _, err := os.Stat(path); return err == nil })
}

// storyteller is an agent that stops halfway through its answer.
func storyteller(goesOn string) *cairn.Agent {
	return &cairn.Agent{Name: "teller", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Text(beginning), scripted.Do(func() { until(goesOn) }), scripted.Text(ending))
	})}
}

// workSteps is the number of steps in which the worker calls its tool.
const workSteps = 3

// working is an agent that calls a tool in each of several steps, and then answers. The tool stops halfway, and
// logs what it did in a file next to goesOn.
func working(goesOn string) *cairn.Agent {
	type in struct {
		Step int `json:"step"`
	}
	work := cairn.Func("work", "Works.", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		f, err := os.OpenFile(worked(goesOn), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, "%s %d %d\n", call.SessionID, in.Step, os.Getpid()); err != nil {
			return "", err
		}
		until(goesOn)
		return "done", nil
	})
	return &cairn.Agent{Name: "worker", Tools: []cairn.Tool{work}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if step := (len(r.Messages) + 1) / 2; step <= workSteps {
			return scripted.Call("work", in{step})
		}
		return scripted.Text(beginning + ending)
	})}
}

// worked returns the file in which the workers' tool logs what it did.
func worked(goesOn string) string { return goesOn + "-worked" }

// schemaOf returns the schema of the servers that wait for a file. The file's directory belongs to one run of a
// test, so the servers of one run do not take over the sessions of another.
func schemaOf(goesOn string) string {
	return strings.ToLower(filepath.Base(filepath.Dir(filepath.Dir(goesOn))))
}

// startServer starts a server process, which ends with the test, and returns its address. Its leases last for a time:
// short ones let another server take over soon from one that is killed, long ones outlast any pause of a busy machine.
func startServer(t *testing.T, database, goesOn string, lease time.Duration) (address string, cmd *exec.Cmd) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), servesVar+"="+database, schemaVar+"="+schemaOf(goesOn), goesOnVar+"="+goesOn, leaseVar+"="+lease.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(line), cmd
}

// roundRobin starts a proxy that passes each request to the next server, without checking whether the server is
// ready.
func roundRobin(t *testing.T, servers ...string) string {
	t.Helper()
	var next atomic.Int64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(servers[int(next.Add(1))%len(servers)])
			if err != nil {
				panic(err) // it is a listener's address
			}
			r.SetURL(to)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv.URL
}

// follower reads the stream of a run from alternating servers until it is complete.
type follower struct {
	servers   []string
	next      int
	run       client.Started
	cuts      int
	begun     func() // called at the first word or the first tool call
	open      bool   // a step has begun and was neither committed nor discarded
	discarded int    // number of discarded steps that had begun
	text      string // text of committed attempts
	attempt   string // text of the attempt under way
	last      int64
}

// follow reads to the run's end. Each reconnect asks the other server for what follows the last event.
func (f *follower) follow(ctx context.Context) error {
	defer f.begun() // otherwise the others would wait for it
	cursor := ""
	for {
		f.next++
		done, err := f.read(ctx, f.servers[f.next%len(f.servers)], &cursor)
		if done || err != nil {
			return err
		}
		if f.cuts++; ctx.Err() != nil {
			return fmt.Errorf("session %s after event %d: %w", f.run.SessionID, f.last, ctx.Err())
		}
		_ = testclock.Pause(ctx, 20*time.Millisecond)
	}
}

// read reads one stream. A broken stream is no error.
func (f *follower) read(ctx context.Context, server string, cursor *string) (done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", server+"/sse?session_id="+f.run.SessionID+"&run_id="+f.run.RunID, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Last-Event-ID", *cursor)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil
	}
	defer res.Body.Close()
	// The server is ending or has ended.
	if res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusBadGateway {
		return false, nil
	}
	if res.StatusCode != 200 {
		body, _ := io.ReadAll(res.Body)
		return false, fmt.Errorf("session %s after %q: %s %s", f.run.SessionID, *cursor, res.Status, body)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			*cursor = id
			sequence, err := strconv.ParseInt(id[strings.LastIndexByte(id, '.')+1:], 10, 64)
			if err != nil || f.last != 0 && sequence != f.last+1 {
				return false, fmt.Errorf("session %s: event %q follows %d", f.run.SessionID, id, f.last)
			}
			f.last = sequence
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev cairn.Event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return false, err
		}
		switch ev.Type {
		case cairn.EventStepStart:
			f.attempt, f.open = "", true
		case cairn.EventStepDiscarded:
			if f.open { // a takeover discards, whether or not a step has begun
				f.discarded++
			}
			f.attempt, f.open = "", false
		case cairn.EventToolStart:
			f.begun()
		case cairn.EventTextDelta:
			f.begun()
			f.attempt += ev.Text
		case cairn.EventStepCommitted:
			f.text += f.attempt
			f.open = false
		case cairn.EventRunEnd:
			if ev.Status != cairn.RunCompleted {
				return false, fmt.Errorf("session %s: it ended %s: %v", f.run.SessionID, ev.Status, ev.Error)
			}
			return true, nil
		}
	}
	return false, nil
}

const sessions = 50

// followAll begins a turn of an agent on each of fifty sessions, and follows them, each request at the next server.
// It calls amid when all turns are halfway, and returns when all have ended.
func followAll(t *testing.T, agent string, servers []string, amid func()) []follower {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var begun sync.WaitGroup
	begun.Add(sessions)
	followers := make([]follower, sessions)
	for i := range followers {
		f := &followers[i]
		f.servers, f.next, f.begun = servers, i, sync.OnceFunc(begun.Done)
		body := fmt.Sprintf(`{"session_id": "s%d", "agent": %q, "input": {"text": "Begin."}}`, i, agent)
		res, err := http.Post(servers[i%len(servers)]+"/start", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(res.Body).Decode(&f.run)
		res.Body.Close()
		if err != nil || f.run.RunID == "" {
			t.Fatalf("session %d: %s, %v", i, res.Status, err)
		}
	}
	errs := make(chan error, sessions)
	var all sync.WaitGroup
	for i := range followers {
		all.Go(func() { errs <- followers[i].follow(ctx) })
	}
	begun.Wait()
	amid()
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for i := range followers {
		if f := &followers[i]; f.text != beginning+ending {
			t.Errorf("session %d said %q", i, f.text)
		}
	}
	return followers
}

// cuts returns the number of streams that were cut.
func cuts(followers []follower) (n int) {
	for i := range followers {
		n += followers[i].cuts
	}
	return n
}

// One of two servers is killed while fifty streams are open on both of them. All streams reach their end, with
// unbroken sequences and each word once.
func TestStreamsOutliveAServer(t *testing.T) {
	t.Parallel()
	database, goesOn := testenv.Postgres(t), filepath.Join(t.TempDir(), "goes-on")
	one, killed := startServer(t, database, goesOn, shortLease)
	two, _ := startServer(t, database, goesOn, shortLease)
	followers := followAll(t, "teller", []string{one, two}, func() {
		killed.Process.Kill()
		if err := os.WriteFile(goesOn, nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if n := cuts(followers); n < sessions/2 {
		t.Errorf("only %d streams were cut", n)
	}
}

// One of two servers behind a proxy is asked to end while fifty streams are open. Its turns finish their step, the
// other server continues them, and all streams reach their end with unbroken sequences. No step that has
// begun is discarded, and no step's tool runs twice.
func TestStreamsOutliveADrain(t *testing.T) {
	t.Parallel()
	database, goesOn := testenv.Postgres(t), filepath.Join(t.TempDir(), "goes-on")
	one, drained := startServer(t, database, goesOn, time.Minute)
	two, other := startServer(t, database, goesOn, time.Minute)
	followers := followAll(t, "worker", []string{roundRobin(t, one, two)}, func() {
		if err := drained.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		// It has cut its streams when it drains.
		err := testclock.Poll(t.Context(), func() bool {
			res, err := http.Get(one + "/readyz")
			if err != nil {
				t.Error(err)
				return true
			}
			res.Body.Close()
			return res.StatusCode == http.StatusServiceUnavailable
		})
		if err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(goesOn, nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err := drained.Wait(); err != nil {
		t.Errorf("the server that was asked to end: %v", err)
	}
	if n := cuts(followers); n == 0 {
		t.Error("no stream was cut")
	}
	for i := range followers {
		if n := followers[i].discarded; n > 0 {
			t.Errorf("session %d: %d steps were discarded", i, n)
		}
	}
	data, err := os.ReadFile(worked(goesOn))
	if err != nil {
		t.Fatal(err)
	}
	byStep, by := map[string]int{}, map[int]int{}
	for line := range strings.Lines(string(data)) {
		var session string
		var step, pid int
		if _, err := fmt.Sscan(line, &session, &step, &pid); err != nil {
			t.Fatal(err)
		}
		byStep[fmt.Sprint(session, " ", step)]++
		by[pid]++
	}
	if len(byStep) != sessions*workSteps {
		t.Errorf("the tool ran in %d steps, want %d", len(byStep), sessions*workSteps)
	}
	for step, n := range byStep {
		if n != 1 {
			t.Errorf("the tool of %s ran %d times", step, n)
		}
	}
	if first := drained.Process.Pid; by[first] == 0 || by[first] >= by[other.Process.Pid] {
		t.Errorf("the tool ran %v times, with %d drained", by, first)
	}
}
