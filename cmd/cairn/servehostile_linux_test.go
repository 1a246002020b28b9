package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// memory returns a figure of the process's status in KiB: VmRSS, or VmHWM, its largest value so far.
func (p *process) memory(figure string) (kib int) {
	p.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\n"+figure+":")
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		p.t.Fatal(figure, err)
	}
	return kib
}

// Twenty hostile requests at once, of each kind, take at most 200 MiB of a server's memory. The server is built without
// the race detector, which takes a multiple of the memory.
func TestServeHostileBodies(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "cairn")
	if said, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	const user = `{"id":"s","messages":[{"id":"m","role":"user","parts":[`
	const whole, some, history = 4<<20 - 1<<10, 512 << 10, 60 << 20 // a whole body, enough for the other limits, a whole chat
	var s *servingProcess
	var idle int
	for _, c := range []struct {
		name                   string
		path, head, unit, tail string
		size, status           int
	}{
		{"empty parts", "/chat", user, `{},`, `{}]}]}`, whole, 413},
		{"as many parts as fit", "/chat", user, `{},`, `{}]}]}`, len(user) + 3*4_990, 400},
		{"parts within parts", "/chat", user + `{"parts":[`, `{"parts":[{}]},`, `{}]}]}]}`, whole, 413},
		{"values in a part", "/chat", user + `{"type":"data-x","data":[`, `{},`, `{}]}]}]}`, len(user) + 3*29_000, 200},
		{"deep nesting", "/chat", user, `[`, `]`, whole, 400},
		{"as deep as permitted", "/chat", user + strings.Repeat(`{"a":[`, 60) + `"`, `x`, `"` + strings.Repeat(`]}`, 60) + `]}]}`, whole, 400},
		{"a long history", "/chat", `{"id":"s","messages":[`, `{"role":"` + strings.Repeat("x", 1<<10) + `"},`, `{"role":"x"}]}`, 10 << 20, 413},
		{"large messages", "/chat", `{"id":"s","messages":[`, `{"role":"` + strings.Repeat("x", whole-64) + `"},`, `{"role":"x"}]}`, history, 400},
		{"many messages", "/chat", `{"id":"s","messages":[`, `{},`, `{}]}`, whole, 413},
		{"values", "/start", `{"session_id":"s","input":{"files":[`, `{},`, `{}]}}`, len(user) + 3*29_000, 400},
		{"a long text", "/chat", user + `{"type":"text","text":"`, `x`, `"}]}]}`, whole, 200},
		{"a file", "/chat", user + `{"type":"file","mediaType":"image/png","url":"data:image/png;base64,`, `AAAA`, `"}]}]}`, whole, 200},
		{"a long input", "/start", `{"session_id":"s","input":{"text":"`, `x`, `"}}`, whole, 202},
	} {
		if s == nil || c.status < 300 { // what is taken stays in memory for a while
			b := newBench(t)
			b.program = program
			s = b.serve(t, b.file(t, "cairn.yaml", guide("Help.")+"\nlimits: {requests_per_minute: -1}"))
			s.say("s", "hello")
			idle = s.memory("VmRSS")
		}
		n := (c.size - len(c.head) - len(c.tail)) / len(c.unit)
		unit := strings.Repeat(c.unit, min(n, 1+1<<16/len(c.unit))) // sent repeatedly
		var all, sent sync.WaitGroup
		sent.Add(20)
		statuses := make([]int, 20)
		for i := range statuses {
			all.Go(func() {
				head := strings.Replace(c.head, `id":"s"`, fmt.Sprintf(`id":"%c"`, 'a'+i), 1)
				body := []io.Reader{strings.NewReader(head)}
				for left := n * len(c.unit); left > 0; left -= len(unit) {
					body = append(body, strings.NewReader(unit[:min(left, len(unit))]))
				}
				last := &together{sent: &sent}
				size := int64(len(c.head) + n*len(c.unit) + len(c.tail))
				statuses[i] = s.hostile(c.path, io.MultiReader(append(body, last, strings.NewReader(c.tail))...), size)
				last.once.Do(sent.Done)
			})
		}
		all.Wait()
		peak := s.memory("VmHWM")
		t.Logf("%s: %d MiB above idle", c.name, (peak-idle)>>10)
		if slices.ContainsFunc(statuses, func(status int) bool { return status != c.status && (status != 0 || c.status < 400) }) {
			t.Errorf("%s: the statuses are %v, want %d", c.name, statuses, c.status)
		}
		if peak-idle > 200<<10 {
			t.Errorf("%s: the server has taken %d KiB more than the %d KiB when idle", c.name, peak-idle, idle)
		}
	}
}

// together is a place in a body: the request waits there until all of them have sent what is before it, or have ended.
type together struct {
	once sync.Once
	sent *sync.WaitGroup
}

func (w *together) Read([]byte) (int, error) {
	w.once.Do(w.sent.Done)
	w.sent.Wait()
	return 0, io.EOF
}

// hostile posts a body, reads the answer and returns its status; 0 if the server closed the connection before.
func (s *servingProcess) hostile(path string, body io.Reader, size int64) int {
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+path, body)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+aliceToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil { // the server need not read all of what it refuses
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		s.t.Error(err)
	}
	return res.StatusCode
}
