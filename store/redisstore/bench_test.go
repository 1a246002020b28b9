package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
	"github.com/redis/go-redis/v9"
)

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(tb testing.TB) driver.Store { return openNew(tb) })
}

func BenchmarkLog(b *testing.B) {
	storetest.BenchLog(b, func(tb testing.TB) driver.Log { return openNew(tb).EventLog() })
}

// stepper commits steps of one session as an engine does.
type stepper struct {
	b   testing.TB
	st  *Store
	row *cairn.Session
	n   int
}

func newStepper(b testing.TB, st *Store, id string, state json.RawMessage) *stepper {
	b.Helper()
	row, err := st.Commit(context.Background(), id, &driver.Commit{Create: &cairn.Session{ID: id, Agent: "support", UserID: "user"}, InitialState: state,
		StartRun: &cairn.Run{ID: "run", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}, Status: cairn.SessionActive,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Minute}})
	if err != nil {
		b.Fatal(err)
	}
	return &stepper{b: b, st: st, row: row}
}

// step commits a reply, a tool result and a checkpoint.
func (s *stepper) step() {
	s.n++
	n := strconv.Itoa(s.n)
	row, err := s.st.Commit(context.Background(), s.row.ID, &driver.Commit{
		Guard:       driver.Guard{Version: s.row.Version, Token: s.row.Lease.Token},
		Messages:    stepMessages,
		Step:        s.n,
		Checkpoint:  &cairn.Checkpoint{ID: "cp-" + n, StepID: "step-" + n, RunID: "run", Step: s.n, LogSequence: int64(10 * s.n)},
		LogSequence: int64(10 * s.n),
		Usage:       cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1, ToolCalls: 1},
		DropStaged:  true,
		Lease:       driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Minute},
	})
	if err != nil {
		s.b.Error(err)
		return
	}
	s.row = row
}

var stepMessages = []cairn.Message{
	{ID: "m1", Role: cairn.RoleAssistant, RunID: "run", Parts: []cairn.Part{
		cairn.TextPart(strings.Repeat("Let me look at that order. ", 10)),
		{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call-1", Tool: "refund", Input: json.RawMessage(`{"order":42,"reason":"arrived broken"}`)}}}},
	{ID: "m2", Role: cairn.RoleTool, RunID: "run", Parts: []cairn.Part{
		{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call-1", Tool: "refund",
			Output: json.RawMessage(`{"order":42,"status":"refunded","amount":"19.90","currency":"EUR"}`)}}}},
}

// floorScript is the step of a stepper written by hand: one guard and the same bytes in the same keys. It computes and
// returns nothing. Its texts are prepared, except for the messages, which the writer has to encode.
var floorScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then
	return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'head', ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[4], ARGV[5])
redis.call('HSET', KEYS[3], ARGV[6], '', ARGV[8], ARGV[9])
redis.call('RPUSH', KEYS[4], ARGV[7])
redis.call('DEL', KEYS[5])
return 1`)

// floor is a session whose steps are written by hand.
type floor struct {
	b    testing.TB
	st   *Store
	keys []string
	head string
	n    int
}

func newFloor(b testing.TB, st *Store, id string) *floor {
	b.Helper()
	s := newStepper(b, st, id, nil)
	s.step()
	f := &floor{b: b, st: st, n: 1}
	for _, letter := range "smcng" {
		f.keys = append(f.keys, st.buckets[0]+string(letter)+":"+id)
	}
	var err error
	if f.head, err = st.client.HGet(context.Background(), f.keys[0], "head").Result(); err != nil {
		b.Fatal(err)
	}
	if err := st.client.HSet(context.Background(), f.keys[0], "version", f.n).Err(); err != nil {
		b.Fatal(err)
	}
	return f
}

func (f *floor) step() {
	n := strconv.Itoa(f.n)
	f.n++
	record := `1763720000000000[` + n + `,1,` + n + `,0,0,2,0,"cp-` + n + `","run","step-` + n + `",` + n + `,10]`
	var messages [2]string
	for i := range messages {
		text, err := fastjson.MessageText(&stepMessages[i])
		if err != nil {
			f.b.Error(err)
		}
		messages[i] = text
	}
	done, err := floorScript.Run(context.Background(), f.st.client, f.keys, n, strconv.Itoa(f.n), f.head, messages[0], messages[1],
		"sstep-"+n, "cp-"+n, "ccp-"+n, record).Int()
	if err != nil || done != 1 {
		f.b.Errorf("%d, %v", done, err)
	}
}

// compare has some writers do two things alternately, in slices, so that other load on the machine affects both. It
// reports the rates and the subject's rate as a share of the base's, as the median of the slices. Given the server, it
// also reports the microseconds of processor time that this process and the server spent on each.
func compare(b *testing.B, server *testenv.RedisProcess, subject, base []func()) {
	const slice = 200
	var spent struct{ subject, base testenv.Spent }
	rate := func(writers []func()) float64 {
		started := time.Now()
		var group sync.WaitGroup
		for _, do := range writers {
			group.Go(func() {
				for range slice {
					do()
				}
			})
		}
		group.Wait()
		return float64(slice*len(writers)) / time.Since(started).Seconds()
	}
	count := func(to *testenv.Spent, writers []func()) (r float64) {
		if server == nil {
			return rate(writers)
		}
		to.Add(b, server.Server, func() int {
			r = rate(writers)
			return slice * len(writers)
		})
		return r
	}
	rate(subject)
	rate(base)
	var subjects, bases, shares []float64
	for b.Loop() {
		s, f := count(&spent.subject, subject), count(&spent.base, base)
		subjects, bases, shares = append(subjects, s), append(bases, f), append(shares, s/f)
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	b.ReportMetric(median(subjects), "subject/s")
	b.ReportMetric(median(bases), "base/s")
	b.ReportMetric(100*median(shares), "%")
	if server != nil {
		spent.subject.Report(b, "subject")
		spent.base.Report(b, "base")
	}
}

// BenchmarkCommitAgainstFloor compares steps with the same writes by hand, at the same concurrency, on a server that
// waits for its disk and on one that has none.
func BenchmarkCommitAgainstFloor(b *testing.B) {
	for name, settings := range map[string][]string{"always": nil, "everysec": {"--appendfsync", "everysec"}, "memory": {"--appendonly", "no"}} {
		server := testenv.RedisServer(b, settings...)
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				st := openAt(b, server.URL(), &Options{Prefix: newPrefix()})
				var subject, base []func()
				for i := range writers {
					subject = append(subject, newStepper(b, st, fmt.Sprint("subject-", i), nil).step)
					base = append(base, newFloor(b, st, fmt.Sprint("base-", i)).step)
				}
				compare(b, server, subject, base)
			})
		}
	}
}

// BenchmarkHistory compares a step after 10,000 messages with one after 10: it must not take longer.
func BenchmarkHistory(b *testing.B) {
	st := openNew(b)
	after := func(messages int) []func() {
		s := newStepper(b, st, fmt.Sprint("after-", messages), nil)
		fill := make([]cairn.Message, messages)
		for i := range fill {
			fill[i] = stepMessages[i%2]
		}
		var err error
		if s.row, err = st.Commit(b.Context(), s.row.ID, &driver.Commit{Messages: fill}); err != nil {
			b.Fatal(err)
		}
		return []func(){s.step}
	}
	compare(b, nil, after(10_000), after(10))
}

// BenchmarkState compares a step with 1 MB of state that it does not change with one with 1 KB: it must not take
// longer.
func BenchmarkState(b *testing.B) {
	st := openNew(b)
	with := func(size int) []func() {
		state := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
		return []func(){newStepper(b, st, fmt.Sprint("with-", size), state).step}
	}
	compare(b, nil, with(1<<20), with(1<<10))
}

// BenchmarkEvents measures small events appended in batches.
func BenchmarkEvents(b *testing.B) {
	for _, batch := range []int{1, 8, 32} {
		for _, writers := range []int{1, 8} {
			b.Run(fmt.Sprintf("batch=%d/writers=%d", batch, writers), func(b *testing.B) {
				log := openNew(b).EventLog()
				events := make([]cairn.Event, batch)
				for i := range events {
					events[i] = cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", RunID: "run", Step: 1, Time: time.Now(), Text: "some words"}
				}
				var group sync.WaitGroup
				share := (b.N + writers - 1) / writers
				b.ResetTimer()
				for i := range writers {
					group.Go(func() {
						for range share {
							if _, err := log.Append(context.Background(), fmt.Sprint("log-", i), driver.AnySequence, events...); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(share*writers*batch)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

func init() {
	storetest.Elsewhere(func(place string) (driver.Log, error) {
		prefix, url, _ := strings.Cut(place, " ")
		s, err := Open(context.Background(), url, &Options{Prefix: prefix})
		if err != nil {
			return nil, err
		}
		return s.EventLog(), nil
	})
}

func BenchmarkFollowAcrossProcesses(b *testing.B) {
	s := openNew(b)
	storetest.BenchFollowAcrossProcesses(b, s.EventLog(), s.opts.Prefix+" "+s.url)
}

// BenchmarkEventsOfSteps compares events in a step's commit with events in appends, on a server that waits for its disk
// and on one that has none.
func BenchmarkEventsOfSteps(b *testing.B) {
	for name, settings := range map[string][]string{"always": nil, "memory": {"--appendonly", "no"}} {
		b.Run(name, func(b *testing.B) {
			server := testenv.RedisServer(b, settings...)
			storetest.BenchEvents(b, func(tb testing.TB) driver.Store {
				return openAt(tb, server.URL(), &Options{Prefix: newPrefix()})
			}, func() storetest.Meter { return &meter{tb: b, server: server} })
		})
	}
}

// meter is a [storetest.Meter] of processor time.
type meter struct {
	testenv.Spent
	tb     testing.TB
	server *testenv.RedisProcess
}

func (m *meter) Add(do func() int) { m.Spent.Add(m.tb, m.server.Server, do) }
