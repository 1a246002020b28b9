package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

// loadServer, if set, makes this program only a server, so that its cost is measured without that of its clients.
const loadServer = "CAIRN_LOAD_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(loadServer) != "" {
		serveLoad()
	}
	os.Exit(m.Run())
}

// spent is the cost of a server so far.
type spent struct {
	// Memory is the size of its heap and stacks after a collection, in bytes.
	Memory uint64
	CPU    time.Duration
}

const deltas = 100

// serveLoad serves an agent that says a hundred words, over five seconds or at once, until its input ends.
func serveLoad() {
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		text := scripted.Text(strings.Repeat("word ", deltas))
		if r.Messages[len(r.Messages)-1].Text() == "slowly" {
			text = text.Pace(50 * time.Millisecond)
		}
		return text
	})
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: model}}, nil)
	if err != nil {
		panic(err)
	}
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, StreamsPerUser: -1, RequestsPerMinute: -1})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /spent", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		_ = json.NewEncoder(w).Encode(spent{m.HeapInuse + m.StackInuse, time.Duration(u.Utime.Nano() + u.Stime.Nano())})
	})
	fmt.Println(httptest.NewServer(mux).URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// load is a server under load, and its clients.
type load struct {
	tb  testing.TB
	url string
}

func newLoad(tb testing.TB) *load {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadServer+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return &load{tb, strings.TrimSpace(line)}
}

func (l *load) post(path string, body string) *http.Response {
	l.tb.Helper()
	res, err := http.Post(l.url+path, "application/json", strings.NewReader(body))
	if err != nil || res.StatusCode >= 300 {
		l.tb.Fatal(res, err)
	}
	return res
}

func (l *load) spent() (s spent) {
	l.tb.Helper()
	res, err := http.Get(l.url + "/spent")
	if err != nil {
		l.tb.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		l.tb.Fatal(err)
	}
	return s
}

// turns runs a turn on each session. It returns their cost to the server until wait has returned.
func (l *load) turns(sessions int, wait func()) time.Duration {
	before := l.spent()
	for i := range sessions {
		l.post("/start", fmt.Sprintf(`{"session_id":"s%d","input":{"text":"slowly"}}`, i)).Body.Close()
	}
	wait()
	return l.spent().CPU - before.CPU
}

// settled waits until no session has a turn under way.
func (l *load) settled(sessions int) {
	for i := range sessions {
		testclock.Await(l.tb, "the turn to end", func() bool {
			res, err := http.Get(fmt.Sprintf("%s/sessions/s%d", l.url, i))
			if err != nil {
				l.tb.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				l.tb.Fatal(err)
			}
			return strings.Contains(string(body), `"completed"`)
		})
	}
}

// firstWords returns the median time from a chat's post to the first words of the reply, for a model without
// latency.
func (l *load) firstWords(rounds int) time.Duration {
	var times []time.Duration
	for i := range rounds {
		body := fmt.Sprintf(`{"id":"f%d","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, i)
		began := time.Now()
		res := l.post("/chat", body)
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), "text-delta") {
		}
		times = append(times, time.Since(began))
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkReaders measures the cost of 1,000 readers of 100 sessions, while the turns of all sessions are under
// way.
func BenchmarkReaders(b *testing.B) {
	const sessions, readers = 100, 1000
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 100
	for range b.N {
		l := newLoad(b)
		for i := range sessions {
			l.post("/sessions", fmt.Sprintf(`{"session_id":"s%d","agent":"bot"}`, i)).Body.Close()
		}
		idle := l.firstWords(100)
		alone := l.turns(sessions, func() { l.settled(sessions) })

		before := l.spent()
		var ended sync.WaitGroup
		var events atomic.Int64
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		for i := range readers {
			res, err := client.Get(fmt.Sprintf("%s/sse?session_id=s%d&after=", l.url, i%sessions))
			if err != nil || res.StatusCode != 200 {
				b.Fatal(res, err)
			}
			defer res.Body.Close()
			ended.Go(func() {
				lines := bufio.NewScanner(res.Body)
				for turns := 0; turns < 2 && lines.Scan(); { // the first turn already exists
					if !strings.HasPrefix(lines.Text(), "event: ") {
						continue
					}
					if events.Add(1); lines.Text() == "event: run_end" {
						turns++
					}
				}
			})
		}
		testclock.Await(b, "all to read the first turn", func() bool { return events.Load() >= readers*deltas })
		time.Sleep(time.Second) // Real time, in which the server's memory comes to rest before it is measured.
		after := l.spent()
		replayed := events.Load()
		var busy time.Duration
		cost := l.turns(sessions, func() {
			busy = l.firstWords(100)
			ended.Wait()
		})
		live := events.Load() - replayed
		b.ReportMetric(float64(after.Memory-before.Memory)/readers/1024, "KiB/reader")
		b.ReportMetric(float64((cost-alone).Nanoseconds())/float64(live), "ns-cpu/event")
		b.ReportMetric(float64(live), "events")
		b.ReportMetric(float64(idle.Microseconds())/1000, "ms-first-word-idle")
		b.ReportMetric(float64(busy.Microseconds())/1000, "ms-first-word-busy")
	}
}
