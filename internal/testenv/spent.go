package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Spent is the processor time that operations took in this process and in a server with its children. It is
// steadier than their rate if other work shares the machine. The server's time is 0 on systems without /proc.
type Spent struct {
	process, server time.Duration
	operations      int
}

// Add adds the processor time that do takes. do returns its number of operations.
func (t *Spent) Add(tb testing.TB, s *Server, do func() (operations int)) {
	tb.Helper()
	process, server := s.spent(tb)
	operations := do()
	processAfter, serverAfter := s.spent(tb)
	t.process += processAfter - process
	t.server += serverAfter - server
	t.operations += operations
}

// Report reports the microseconds per operation.
func (t *Spent) Report(b *testing.B, name string) {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(t.operations) }
	b.ReportMetric(each(t.process), name+"-client-µs")
	b.ReportMetric(each(t.server), name+"-server-µs")
}

// spent returns the processor time that this process and a server with its children have used so far.
func (s *Server) spent(tb testing.TB) (process, server time.Duration) {
	tb.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		tb.Fatalf("%s: it does not run", s.program.name)
	}
	pid := strconv.Itoa(s.process.cmd.Process.Pid)
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	ticks := 0
	for _, path := range list {
		if n, parent := ticksOf(path); parent == pid || path == "/proc/"+pid+"/stat" {
			ticks += n
		}
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), time.Duration(ticks) * tick
}

// tick is the unit of times in /proc.
const tick = time.Second / 100

// ticksOf returns the time that a process and its ended children have used, and the process's parent. Both are zero
// if the process has ended.
func ticksOf(path string) (ticks int, parent string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, ""
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	for _, field := range fields[11:15] {
		var n int
		fmt.Sscan(field, &n)
		ticks += n
	}
	return ticks, fields[1]
}
