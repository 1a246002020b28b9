package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
	"github.com/jackc/pgx/v5/pgxpool"
)

// openDurable opens a store on a server that waits for the disk, with a connection for each writer.
func openDurable(tb testing.TB, connections int) *Store {
	tb.Helper()
	return openOn(tb, testenv.Postgres(tb), connections)
}

func openOn(tb testing.TB, url string, connections int) *Store {
	tb.Helper()
	return openAt(tb, url+"&pool_max_conns="+strconv.Itoa(connections), &Options{Schema: newSchema()})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(tb testing.TB) driver.Store { return openDurable(tb, 16) })
}

func BenchmarkLog(b *testing.B) {
	storetest.BenchLog(b, func(tb testing.TB) driver.Log { return openDurable(tb, 16).EventLog() })
}

// slice is how long one side of a comparison runs before the other takes over, so that both run under the same
// conditions.
const slice = 250 * time.Millisecond

// BenchmarkShare alternates between committing steps and writing the same bytes by hand. It reports the rate of each
// and the first as a share of the second, and how many microseconds of processor time this process and the server spend
// on each step.
func BenchmarkShare(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			server := testenv.NewPostgres(b)
			ours, floor := newSteps(b, server.URL(), writers), newFloor(b, server.URL(), writers)
			warmUp(b, ours)
			warmUp(b, floor)
			var shares []float64
			var rates [2]float64
			var spent [2]testenv.Spent
			count := func(to *testenv.Spent, s side) (rate float64) {
				to.Add(b, server.Server, func() (steps int) {
					rate, steps = driveCounted(b, s, slice)
					return steps
				})
				return rate
			}
			for b.Loop() {
				a, z := count(&spent[0], ours), count(&spent[1], floor)
				shares = append(shares, 100*a/z)
				rates[0], rates[1] = rates[0]+a, rates[1]+z
			}
			n := float64(len(shares))
			slices.Sort(shares)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rates[0]/n, "steps/s")
			b.ReportMetric(rates[1]/n, "floor/s")
			b.ReportMetric(shares[len(shares)/2], "%share")
			spent[0].Report(b, "step")
			spent[1].Report(b, "floor")
		})
	}
}

// BenchmarkBeside commits steps while another process adds a message to each session ten times a second, and requests a
// stop of its run as often. A step that comes too late is repeated on the row as read. It reports the rate, and that
// rate as a share of the rate without the other process, measured alternately.
func BenchmarkBeside(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			url := testenv.NewPostgres(b).URL()
			ours := newSteps(b, url, writers)
			other := openAt(b, url+"&pool_max_conns=4", &ours.list[0].st.(*Store).opts)
			warmUp(b, ours)
			var shares []float64
			var rate float64
			for b.Loop() {
				quiet := drive(b, ours, slice)
				stop := disturb(b, other, ours)
				busy := drive(b, ours, slice)
				stop()
				shares, rate = append(shares, 100*busy/quiet), rate+busy
			}
			slices.Sort(shares)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rate/float64(b.N), "steps/s")
			b.ReportMetric(shares[len(shares)/2], "%quiet")
		})
	}
}

// disturb makes another process write to the sessions of some writers until it is stopped.
func disturb(b *testing.B, other *Store, s *steps) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	for i := range s.list {
		id := s.list[i].row.ID
		group.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				row, err := driver.AppendMessages(ctx, other, id, cairn.User(cairn.TextPart("by the way")))
				if err == nil {
					err = other.RequestStop(ctx, id, cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt})
				}
				if err != nil && ctx.Err() == nil && !errors.Is(err, cairn.ErrNotRunning) {
					b.Error(err)
				}
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// BenchmarkFlat alternates between committing steps on a short and on a long session, and reports how much more the
// long session's steps cost.
func BenchmarkFlat(b *testing.B) {
	for name, c := range map[string]struct{ messages, state [2]int }{
		"history=10:10000":   {messages: [2]int{10, 10_000}},
		"state=1KiB:1024KiB": {state: [2]int{1 << 10, 1 << 20}},
	} {
		b.Run(name, func(b *testing.B) {
			s := openDurable(b, 1)
			var sides [2]*steps
			for i := range sides {
				st := newStepper(b, s, fmt.Sprint("session-", i), fmt.Appendf(nil, `{"body":%q}`, strings.Repeat("x", c.state[i])))
				if n := c.messages[i]; n > 0 {
					row, err := s.Commit(b.Context(), st.row.ID, &driver.Commit{Messages: slices.Repeat(stepMessages("run"), n/2)})
					if err != nil {
						b.Fatal(err)
					}
					st.row = row
				}
				sides[i] = &steps{list: []*stepper{st}}
				drive(b, sides[i], slice)
			}
			var ratios []float64
			for b.Loop() {
				ratios = append(ratios, drive(b, sides[0], slice)/drive(b, sides[1], slice))
			}
			slices.Sort(ratios)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
		})
	}
}

// side is what a comparison drives: a step of a writer.
type side interface {
	writers() int
	step(writer int) error
}

// warmRuns are so many that each connection has executed the statements of a run's first and last steps more than five
// times, after which the server plans them no more.
const warmRuns = 12

// warmUp makes each writer of a side write the steps of some runs.
func warmUp(b *testing.B, s side) {
	b.Helper()
	var group sync.WaitGroup
	for i := range s.writers() {
		group.Go(func() {
			for range warmRuns * stepsPerRun {
				if err := s.step(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// drive makes each writer of a side write for a while, and returns the number of steps per second.
func drive(b *testing.B, s side, d time.Duration) (rate float64) {
	b.Helper()
	rate, _ = driveCounted(b, s, d)
	return rate
}

// driveCounted is drive, and also returns the number of steps.
func driveCounted(b *testing.B, s side, d time.Duration) (rate float64, n int) {
	b.Helper()
	errs := make([]error, s.writers())
	var steps atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for i := range s.writers() {
		group.Go(func() {
			for errs[i] == nil && time.Since(began) < d {
				errs[i] = s.step(i)
				steps.Add(1)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return float64(steps.Load()) / time.Since(began).Seconds(), int(steps.Load())
}

// steps are writers that commit steps, each of a session of its own.
type steps struct{ list []*stepper }

func newSteps(b *testing.B, url string, writers int) *steps {
	b.Helper()
	s := openOn(b, url, writers)
	out := &steps{}
	for i := range writers {
		out.list = append(out.list, newStepper(b, s, fmt.Sprint("session-", i), nil))
	}
	return out
}

func (s *steps) writers() int          { return len(s.list) }
func (s *steps) step(writer int) error { return s.list[writer].step() }

// The transaction of a step written by hand: the same rows from texts that are ready, one update that is its own guard,
// nothing returned but the version.
const (
	sqlFloorHead = `
		WITH head AS (
			UPDATE {schema}.heads
			SET version = version + 1, updated_at = $3, lease_until = $4, data = $5`

	sqlFloorRest = `
			WHERE session = $1 AND version = $2
			RETURNING session, version
		), messages AS (
			INSERT INTO {schema}.messages (session, number, turn, created_at, data)
			SELECT session, $6::bigint - 3 + m.number, $9::bigint, $3, m.data FROM head, unnest($7::text[]) WITH ORDINALITY m (data, number)
		), checkpoint AS (
			INSERT INTO {schema}.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at,
				id, step_id, id_key, step_key)
			SELECT session, $8::bigint, $9::bigint, $10::bigint, $6::bigint, 0, 0, $3, $11, $12, $13, $14 FROM head
		), staged AS (
			DELETE FROM {schema}.staged WHERE session = $1
		)`

	sqlFloorStep  = sqlFloorHead + sqlFloorRest + `SELECT version FROM head`
	sqlFloorBegin = sqlFloorHead + `, status = 'active', run_id = $15, lease_token = lease_token + 1` + sqlFloorRest + `,
		run AS (
			INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint,
				before_position, data)
			SELECT session, $9, $15, $3, 0, $6::bigint - 2, $16, 0, $17 FROM head
		)
		SELECT version FROM head`
	sqlFloorEnd = sqlFloorHead + `, status = 'completed'` + sqlFloorRest + `,
		run AS (UPDATE {schema}.runs SET ended_at = $3, data = $16 WHERE session = $1 AND id = $15)
		SELECT version FROM head`
)

// floor are writers whose steps are written by hand.
type floor struct {
	b    *testing.B
	pool *pgxpool.Pool
	text [3]string
	data [4]string // the JSON of two messages, a run and the rest of the head
	list []floorSession
}

type floorSession struct {
	key, version int64
	n            int
}

func newFloor(b *testing.B, url string, writers int) *floor {
	b.Helper()
	s := openOn(b, url, writers)
	f := &floor{b: b, pool: s.pool, text: [3]string{s.texts.of(sqlFloorBegin), s.texts.of(sqlFloorStep), s.texts.of(sqlFloorEnd)}}
	messages := stepMessages("run-0")
	f.data[0], f.data[1] = must(encodeMessage(&messages[0])), must(encodeMessage(&messages[1]))
	f.data[2] = must(encodeRun(&cairn.Run{ID: "run-0", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}, 0))
	usage := cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1, ToolCalls: 1}
	f.data[3] = must(encodeHead(&cairn.Session{MessageCount: 100, Turn: 5, Step: 5, CheckpointID: "cp-50", Usage: usage, RunUsage: usage,
		Lease: cairn.Lease{Owner: "worker", Token: time.Now().UnixMicro(), Until: time.Now()}}, 50))
	for i := range writers {
		row := newStepper(b, s, fmt.Sprint("session-", i), nil).row
		var key int64
		if err := s.pool.QueryRow(b.Context(), s.texts.of(sqlFind), row.ID).Scan(&key, new(string), new(bool)); err != nil {
			b.Fatal(err)
		}
		f.list = append(f.list, floorSession{key: key, version: row.Version})
	}
	return f
}

func (f *floor) writers() int { return len(f.list) }

func (f *floor) step(writer int) error {
	s := &f.list[writer]
	n := s.n
	s.n++
	run := n / stepsPerRun
	name, cp, step := fmt.Sprintf("run-%d", run), fmt.Sprintf("cp-%d", n+1), fmt.Sprintf("step-%d", n+1)
	args := []any{s.key, s.version, time.Now(), time.Now().Add(time.Minute), f.data[3], int64(2*n + 2), f.data[:2], int64(n + 1), int64(run + 1),
		int64(n%stepsPerRun + 1), cp, step, keyOf(cp), keyOf(step)}
	text := f.text[1]
	switch n % stepsPerRun {
	case 0:
		text, args = f.text[0], append(args, name, fmt.Sprintf("cp-%d", n), f.data[2])
	case stepsPerRun - 1:
		text, args = f.text[2], append(args, name, f.data[2])
	}
	return f.pool.QueryRow(f.b.Context(), text, args...).Scan(&s.version)
}

// BenchmarkEvents appends small events in batches, as many streams at once do.
func BenchmarkEvents(b *testing.B) {
	for name, lazy := range map[string]bool{"durable": false, "lazy": true} {
		b.Run(name, func(b *testing.B) { benchEvents(b, 4, 100, lazy) })
	}
}

// BenchmarkSingleEvents appends small events one by one, each of which is on disk before the next one of its log.
func BenchmarkSingleEvents(b *testing.B) {
	for _, streams := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) { benchEvents(b, streams, 1, false) })
	}
}

// benchEvents appends to as many logs as there are streams, in batches of a size.
func benchEvents(b *testing.B, streams, size int, lazy bool) {
	s := openAt(b, testenv.Postgres(b)+"&pool_max_conns="+strconv.Itoa(streams), &Options{Schema: newSchema(), LazyEvents: lazy})
	list := make([]cairn.Event, size)
	for i := range list {
		list[i] = cairn.Event{Type: cairn.EventTextDelta, SessionID: "session", RunID: "run", Step: 1, Text: "a few words"}
	}
	side := appends{b, s.log, list, streams}
	drive(b, side, slice)
	var rate float64
	for b.Loop() {
		rate += drive(b, side, slice)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rate*float64(size)/float64(b.N), "events/s")
}

type appends struct {
	b       *testing.B
	log     *Log
	events  []cairn.Event
	streams int
}

func (a appends) writers() int { return a.streams }

func (a appends) step(writer int) error {
	_, err := a.log.AppendFenced(a.b.Context(), fmt.Sprint("log-", writer), driver.AnySequence, driver.Writer{Session: "session", Token: 1}, a.events...)
	return err
}

func init() {
	storetest.Elsewhere(func(place string) (driver.Log, error) {
		schema, url, _ := strings.Cut(place, " ")
		s, err := Open(context.Background(), url, &Options{Schema: schema})
		if err != nil {
			return nil, err
		}
		return s.EventLog(), nil
	})
}

func BenchmarkFollowAcrossProcesses(b *testing.B) {
	s := openDurable(b, 2)
	storetest.BenchFollowAcrossProcesses(b, s.EventLog(), s.opts.Schema+" "+testenv.Postgres(b))
}
