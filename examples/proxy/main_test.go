package main

import (
	"bufio"
	"encoding/json"
	"github.com/cairn-agents/cairn/client"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/examples/internal/process"
	"github.com/cairn-agents/cairn/internal/testclock"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

func TestWithoutArgumentsItSaysWhatToRun(t *testing.T) {
	t.Parallel()
	if got := process.Fails(t, t.TempDir(), 2); !strings.Contains(got, "usage: ") {
		t.Errorf("%q", got)
	}
}

// While one of two servers is dead, the other one gets every request, also of those that arrive at the same time.
func TestRequestsAtOnceReachTheServerThatLives(t *testing.T) {
	t.Parallel()
	const requests = 200
	live := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer live.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	proxy := httptest.NewServer(roundRobin([]string{dead.URL, live.URL}))
	defer proxy.Close()
	statuses := make(chan int, requests)
	for range requests {
		go func() {
			res, err := http.Get(proxy.URL + "/status")
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	for range requests {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a request is answered with %d", status)
		}
	}
}

// A client that only knows the proxy reads its turn to the end, although the server that began it is asked to end.
// No chapter is written twice.
func TestServerEndsInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := process.Start(t, dir, "server"), process.Start(t, dir, "server")
	first := one.Await(t, "http://")
	proxy := process.Start(t, dir, first, two.Await(t, "http://"))
	address := proxy.Await(t, "http://")

	res, err := http.Post(first+"/start", "application/json", strings.NewReader(`{"session_id": "novel", "agent": "author", "input": {"text": "Write!"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var run client.Started
	if err := json.NewDecoder(res.Body).Decode(&run); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	one.Await(t, "chapter 1")

	seen, last, ended := map[string]bool{}, "", false
	read := func(started func()) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", address+"/sse?session_id=novel&run_id="+run.RunID, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Last-Event-ID", last)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				if seen[id] {
					t.Errorf("event %s came twice", id)
				}
				seen[id], last = true, id
				started()
			}
			ended = ended || lines.Text() == "event: run_end"
		}
	}
	asked := false
	for !ended && t.Context().Err() == nil {
		read(func() {
			if !asked {
				asked = true
				one.Signal(t, syscall.SIGTERM)
			}
		})
		_ = testclock.Pause(t.Context(), 20*time.Millisecond) // before the next attempt
	}
	two.Signal(t, syscall.SIGTERM)
	written := "chapter 1\n" + one.End(t) + two.End(t)
	if written != "chapter 1\nchapter 2\nchapter 3\nchapter 4\n" {
		t.Errorf("the servers wrote:\n%s", written)
	}
}
