package main

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
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// asReaderServer, if set, makes the test binary a server whose cost is measured without that of its clients. Its value
// is the store's URL, or inMemory.
const (
	asReaderServer = "CAIRN_TEST_READER_SERVER"
	inMemory       = "memory"
)

// saidWords is how many words the agent of that server says, one every wordPace.
const (
	saidWords = 1000
	wordPace  = 4 * time.Millisecond
)

// serverCost is the cost of a server so far.
type serverCost struct {
	// Memory is the size of its heap and stacks after a collection, Resident that of the process, in bytes.
	Memory, Resident uint64
	CPU              time.Duration
	Allocations      uint64
}

// costNow returns the cost of this process.
func costNow() (c serverCost) {
	runtime.GC()
	runtime.GC() // empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	var pages, resident uint64
	statm, _ := os.ReadFile("/proc/self/statm") // Linux only
	_, _ = fmt.Sscan(string(statm), &pages, &resident)
	return serverCost{m.HeapInuse + m.StackInuse, resident * uint64(os.Getpagesize()), time.Duration(u.Utime.Nano() + u.Stime.Nano()), m.Mallocs}
}

// serveReaders serves an agent on a store until its input ends.
func serveReaders(at string) error {
	var st store.Store = memstore.New(nil)
	if at != inMemory {
		address, err := stores.Parse(asReaderServer, at)
		if err != nil {
			return err
		}
		if st, err = address.Open(context.Background(), time.Now); err != nil {
			return err
		}
	}
	bot := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text(strings.Repeat("word ", saidWords)).Pace(wordPace)
	})}
	eng, err := engine.New(st, []*cairn.Agent{bot}, &engine.Options{Coalesce: -1})
	if err != nil {
		return err
	}
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, StreamsPerUser: -1, RequestsPerMinute: -1})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /cost", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(costNow()) })
	fmt.Println(httptest.NewServer(mux).URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// measured is such a server, in its own process, and its clients.
type measured struct {
	b   testing.TB
	url string
}

func newMeasured(b testing.TB, at string) *measured {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), asReaderServer+"="+at), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &measured{b, strings.TrimSpace(line)}
}

func (m *measured) request(method, path, body string) *http.Response {
	m.b.Helper()
	req, err := http.NewRequest(method, m.url+path, strings.NewReader(body))
	if err != nil {
		m.b.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := (&http.Client{Transport: streaming}).Do(req)
	if err != nil || res.StatusCode >= 300 {
		m.b.Fatal(res, err)
	}
	return res
}

var streaming = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}

func (m *measured) cost() (c serverCost) {
	m.b.Helper()
	res := m.request("GET", "/cost", "")
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		m.b.Fatal(err)
	}
	return c
}

func (m *measured) create(id string) {
	m.request("POST", "/sessions", fmt.Sprintf(`{"session_id":%q,"agent":"bot"}`, id)).Body.Close()
}

func (m *measured) start(id string) {
	m.request("POST", "/start", fmt.Sprintf(`{"session_id":%q,"input":{"text":"go"}}`, id)).Body.Close()
}

// frames counts the frames of a stream up to the one that contains last.
func frames(res *http.Response, last string, n *atomic.Int64) {
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if text := lines.Text(); strings.HasPrefix(text, "data: ") {
			n.Add(1)
			if strings.Contains(text, last) {
				return
			}
		}
	}
}

// turn measures a turn that so many readers follow by the stream at path, to the frame with last. It returns the
// server's cost from before the turn to after it, and the number of frames that the readers received.
func (m *measured) turn(id string, readers int, path, last string) (cost serverCost, received int64) {
	m.create(id)
	var n atomic.Int64
	var reading sync.WaitGroup
	follow := func(path, last string) {
		res := m.request("GET", path, "")
		reading.Go(func() { frames(res, last, &n) })
	}
	before := m.cost()
	if strings.HasPrefix(path, "/chat") { // there has to be a turn to follow
		m.start(id)
	}
	for range readers {
		follow(fmt.Sprintf(path, id), last)
	}
	if !strings.HasPrefix(path, "/chat") {
		m.start(id)
	}
	var own atomic.Int64
	res := m.request("GET", "/sse?session_id="+id, "")
	frames(res, `"run_end"`, &own)
	reading.Wait()
	after := m.cost()
	return serverCost{CPU: after.CPU - before.CPU, Allocations: after.Allocations - before.Allocations}, n.Load()
}

// BenchmarkReaders measures what the readers of streams cost a server, over real connections: the memory of each of a
// thousand that wait, ten of each session, and the processor time and allocations to bring one event to each of a
// hundred that follow the same turn. The store is in memory, and for the memory also on SQLite, PostgreSQL and Redis.
func BenchmarkReaders(b *testing.B) {
	for _, at := range []struct {
		name string
		url  func(testing.TB) string
	}{
		{inMemory, func(testing.TB) string { return inMemory }},
		{"sqlite", func(testing.TB) string { return filepath.Join(b.TempDir(), "cairn.db") }},
		{"postgres", testenv.Postgres}, {"redis", testenv.Redis},
	} {
		b.Run("idle/"+at.name, func(b *testing.B) {
			for b.Loop() {
				benchIdle(b, at.url(b))
			}
		})
	}
	for name, stream := range map[string]struct{ path, last string }{
		"sse": {"/sse?session_id=%s", `"run_end"`}, "chat": {"/chat/%s/stream", "[DONE]"},
	} {
		b.Run("follow/"+name, func(b *testing.B) {
			const readers = 100
			m := newMeasured(b, inMemory)
			m.turn("warm", readers, stream.path, stream.last)
			var cpu, allocations, received float64
			for n := 0; b.Loop(); n++ {
				alone, _ := m.turn(fmt.Sprint("alone", n), 0, stream.path, stream.last)
				followed, frames := m.turn(fmt.Sprint("followed", n), readers, stream.path, stream.last)
				cpu += float64(followed.CPU - alone.CPU)
				allocations += float64(followed.Allocations) - float64(alone.Allocations)
				received += float64(frames)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(cpu/received/1000, "µs-cpu/frame")
			b.ReportMetric(allocations/received, "allocs/frame")
			b.ReportMetric(received/readers/float64(b.N), "frames/reader")
		})
	}
}

// benchIdle reports the memory of readers that wait for a turn.
func benchIdle(b *testing.B, at string) {
	const readers = 1000
	each := newMeasured(b, at).idle(readers)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(each.Memory)/1024, "KiB/reader")
	b.ReportMetric(float64(each.Resident)/1024, "resident-KiB/reader")
}

// idle returns the memory of each of so many readers that wait for a turn, ten of each session.
func (m *measured) idle(readers int) serverCost {
	sessions := readers / 10
	for i := range sessions {
		m.create(fmt.Sprint("s", i))
	}
	open := func(n int) (list []io.Closer) {
		for i := range n {
			list = append(list, m.request("GET", fmt.Sprintf("/sse?session_id=s%d", i%sessions), "").Body)
		}
		return list
	}
	for _, c := range open(sessions) { // fills the pools
		c.Close()
	}
	before := m.cost()
	list := open(readers)
	after := m.cost()
	for last := (serverCost{}); last.Memory>>16 != after.Memory>>16; { // until the last of them has read what there is
		last, after = after, m.cost()
	}
	for _, c := range list {
		c.Close()
	}
	each := func(before, after uint64) uint64 { return (max(after, before) - before) / uint64(readers) }
	return serverCost{Memory: each(before.Memory, after.Memory), Resident: each(before.Resident, after.Resident)}
}

// A reader that waits costs a server little memory, so that a process can have many.
func TestMemoryOfAReader(t *testing.T) {
	t.Parallel()
	limit := uint64(48 << 10)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		limit = 64 << 10 // with what the race detector adds to stacks and objects
	}
	if each := newMeasured(t, filepath.Join(t.TempDir(), "cairn.db")).idle(300); each.Memory > limit {
		t.Errorf("a reader costs %d bytes of heap and stacks, the limit is %d", each.Memory, limit)
	}
}
