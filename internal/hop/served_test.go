package hop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/pgstore"
)

// servesVar makes the test binary a server of the database that it names, in the schema of schemaVar. Its agent stops in the
// middle of each answer until there is the file that goesOnVar names.
const (
	servesVar = "CAIRN_TEST_SERVES"
	schemaVar = "CAIRN_TEST_SCHEMA"
	goesOnVar = "CAIRN_TEST_GOES_ON"
)

// The two halves of what the agent says.
const beginning, ending = "Once upon a time there was", " a server that was killed."

// serves is the process of a server, which works for sessions of dead processes as well.
func serves(url string) error {
	ctx := context.Background()
	st, err := pgstore.Open(ctx, url, &pgstore.Options{Schema: os.Getenv(schemaVar)})
	if err != nil {
		return err
	}
	defer st.Close()
	teller := &cairn.Agent{Name: "teller", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Reply(scripted.Text(beginning), scripted.Do(func() {
			for {
				if _, err := os.Stat(os.Getenv(goesOnVar)); err == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}), scripted.Text(ending))
	})}
	eng, err := engine.New(st, []*cairn.Agent{teller}, &engine.Options{LeaseTTL: 2 * time.Second, WorkConcurrency: 100, WorkInterval: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	go eng.Work(ctx)
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, RequestsPerMinute: -1, StreamsPerUser: -1})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, h)
}

// schemaOf is the schema of a test's servers: a worker of one test must not take up the sessions of another.
func schemaOf(t *testing.T) string { return strings.ToLower(t.Name()) }

// startServer starts a server process and returns its address and how to kill it.
func startServer(t *testing.T, database, goesOn string) (address string, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), servesVar+"="+database, schemaVar+"="+schemaOf(t), goesOnVar+"="+goesOn)
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
	return "http://" + strings.TrimSpace(line), func() { cmd.Process.Kill() }
}

// follower reads the stream of one run from either server, whichever takes it, until it is whole.
type follower struct {
	servers []string
	next    int
	run     server.Started
	cuts    int
	text    string // of the attempts that stand
	attempt string // of the one under way
	last    int64
	began   func() // called with the first word
}

// follow reads to the run's end. Every reconnect asks the other server for what follows the last event.
func (f *follower) follow(ctx context.Context) error {
	defer f.began() // else the others would wait for it
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
		time.Sleep(20 * time.Millisecond)
	}
}

// read reads one stream. What breaks it is no error.
func (f *follower) read(ctx context.Context, url string, cursor *string) (done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/sse?session_id="+f.run.SessionID+"&run_id="+f.run.RunID, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Last-Event-ID", *cursor)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil
	}
	defer res.Body.Close()
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
		case cairn.EventStepStart, cairn.EventStepDiscarded:
			f.attempt = ""
		case cairn.EventTextDelta:
			f.began()
			f.attempt += ev.Text
		case cairn.EventStepCommitted:
			f.text += f.attempt
		case cairn.EventRunEnd:
			if ev.Status != cairn.RunCompleted {
				return false, fmt.Errorf("session %s: it ended %s: %v", f.run.SessionID, ev.Status, ev.Error)
			}
			return true, nil
		}
	}
	return false, nil
}

// Of two servers one is killed while fifty streams are open, over any of the two: all of them reach their end, with
// unbroken sequences and each word once.
func TestStreamsOutliveAServer(t *testing.T) {
	t.Parallel()
	const sessions = 50
	database, goesOn := testenv.Postgres(t), filepath.Join(t.TempDir(), "goes-on")
	one, kill := startServer(t, database, goesOn)
	two, _ := startServer(t, database, goesOn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var begun sync.WaitGroup
	begun.Add(sessions)
	followers := make([]follower, sessions)
	for i := range followers {
		f := &followers[i]
		f.servers, f.next, f.began = []string{one, two}, i, sync.OnceFunc(begun.Done)
		body := fmt.Sprintf(`{"session_id": "s%d", "agent": "teller", "input": {"text": "Tell me."}}`, i)
		res, err := http.Post(f.servers[i%2]+"/start", "application/json", strings.NewReader(body))
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
	begun.Wait() // all are in the middle of their answers
	kill()
	if err := os.WriteFile(goesOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	cuts := 0
	for i := range followers {
		if f := &followers[i]; f.text != beginning+ending {
			t.Errorf("session %d said %q", i, f.text)
		}
		cuts += followers[i].cuts
	}
	if cuts < sessions/2 {
		t.Errorf("only %d streams were cut", cuts)
	}
}
