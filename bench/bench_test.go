package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/bench/internal/npm"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./bench -args -update writes it):\n%s", name, got)
	}
}

func TestEachSystemKeepsTheConversation(t *testing.T) {
	a, err := newArena(t.Context(), testenv.NewPostgres(t), testenv.RedisServer(t), 2, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
	p := plan{lengths: []int{2, 20}, writers: []int{1, 2}, steps: 12, rounds: 2, slice: time.Nanosecond, budget: time.Hour}
	r, err := measure(t.Context(), a.contenders, a.conversation, p, io.Discard) // it verifies each system first
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the floors write what Cairn writes", func(t *testing.T) {
		if floor, cairn := tableRows(t, a.databases[0]), tableRows(t, a.databases[1]); !slices.Equal(floor, cairn) {
			t.Errorf("PostgreSQL: %s", firstDifference(floor, cairn))
		}
		if floor, cairn := tableRows(t, a.databases[2]), tableRows(t, a.databases[1]); !slices.Equal(floor, cairn) {
			t.Errorf("PostgreSQL, joined: %s", firstDifference(floor, cairn))
		}
		if floor, cairn := keyValues(t, a.keyspaces[0]), keyValues(t, a.keyspaces[1]); !slices.Equal(floor, cairn) {
			t.Errorf("Redis: %s", firstDifference(floor, cairn))
		}
	})
	for i, x := range a.contenders {
		t.Run(fmt.Sprintf("%s/%s", x.on, x.name), func(t *testing.T) {
			for _, n := range p.lengths {
				if r.bytes[bytesKey{i, n}] <= 0 {
					t.Errorf("a step after %d messages takes %g bytes", n, r.bytes[bytesKey{i, n}])
				}
				for _, writers := range p.writers {
					if c := r.cells[cellKey{i, n, writers}]; c == nil || len(c.rates) != p.rounds || c.rate() <= 0 {
						t.Errorf("%d messages, %d writers: %+v", n, writers, c)
					}
				}
			}
			const long = templateEvents + 50
			s, err := x.open(t.Context(), "long", long)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := s.read(t.Context())
			if err != nil || len(got.Messages) != long+2 {
				t.Errorf("%d messages after a step after %d, %v", len(got.Messages), long, err)
			}
		})
	}
}

// tableRows returns the verified session's rows in tables, without times.
func tableRows(t *testing.T, db *postgresDatabase) (out []string) {
	t.Helper()
	for _, query := range []string{
		"SELECT number, turn, run, data FROM cairn.messages",
		"SELECT position, keyframe, data FROM cairn.state",
		`SELECT number, turn, step, message_count, state_position, log_sequence, id, step_id, id_key, step_key, run, parent
			FROM cairn.checkpoints`,
		"SELECT data FROM cairn.heads", // a version is a number that has not been before
	} {
		rows, err := db.pool.Query(t.Context(), "SELECT r::text FROM ("+query+`
			WHERE session = (SELECT key FROM cairn.sessions WHERE id = 'verified') ORDER BY 1) r`)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// keyValues returns the verified session's values in keys, without times and its row.
func keyValues(t *testing.T, db *redisDatabase) []string {
	t.Helper()
	key := func(letter string) string { return "cairn:{0}:" + letter + ":verified" }
	pipe := db.client.Pipeline()
	messages, state := pipe.LRange(t.Context(), key("m"), 0, -1), pipe.LRange(t.Context(), key("f"), 0, -1)
	checkpoints, order := pipe.HGetAll(t.Context(), key("c")), pipe.LRange(t.Context(), key("n"), 0, -1)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := slices.Concat(messages.Val(), state.Val(), order.Val())
	for _, name := range slices.Sorted(maps.Keys(checkpoints.Val())) {
		out = append(out, name+" "+checkpoints.Val()[name])
	}
	for i := range out {
		out[i] = regexp.MustCompile(`\b\d{16}\b|^\d{16}`).ReplaceAllString(out[i], "TIME")
	}
	return out
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%.300s\nand\n%.300s", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d entries", len(a), len(b))
}

// fake is a system in memory.
type fake struct {
	conversation *conversation
	fault        error
	sessions     []*fakeSession
}

type fakeSession struct {
	system   *fake
	n, steps int
}

func (f *fake) open(_ context.Context, _ string, n int) (session, error) {
	s := &fakeSession{system: f, n: n}
	f.sessions = append(f.sessions, s)
	return s, nil
}

func (f *fake) stored(context.Context) (int64, error) { return 0, nil }
func (f *fake) close() error                          { return nil }

func (s *fakeSession) step(context.Context) error {
	s.steps++
	return s.system.fault
}

func (s *fakeSession) read(context.Context) (transcript, error) {
	return s.system.conversation.after(s.n, s.steps), nil
}

func TestASlowSystemIsCutOff(t *testing.T) {
	f := &fake{conversation: newConversation()}
	p := plan{lengths: []int{10}, writers: []int{1}, steps: 1, rounds: 5, slice: time.Nanosecond, budget: time.Nanosecond}
	r, err := measure(t.Context(), []contender{{"fake", onRedis, f}}, f.conversation, p, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.cells[cellKey{0, 10, 1}].rates); got != 1 {
		t.Errorf("%d rounds, want 1", got)
	}
}

// choosy is a system that takes only short histories.
type choosy struct{ fake }

func (*choosy) takes(n, _ int) bool { return n < 100 }

func TestASystemIsSparedWhatItCannotTake(t *testing.T) {
	f := &choosy{fake{conversation: newConversation()}}
	p := plan{lengths: []int{10, 100}, writers: []int{1}, steps: 1, rounds: 1, slice: time.Nanosecond, budget: time.Hour}
	list := []contender{{floorName, onRedis, &fake{conversation: f.conversation}}, {cairnName, onRedis, &fake{conversation: f.conversation}}, {"choosy", onRedis, f}}
	r, err := measure(t.Context(), list, f.conversation, p, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := tables(list, r); !regexp.MustCompile(`\| choosy \| [^|]+ms \| – \| [0-9.]+ \| [0-9.]+ \|`).MatchString(got) {
		t.Errorf("the table is\n%s", got)
	}
}

func TestAHistoryStaysAboutAsLong(t *testing.T) {
	f := &fake{conversation: newConversation()}
	p := plan{lengths: []int{10, 1000}, writers: []int{2}, steps: 100, rounds: 3, slice: time.Hour, budget: time.Hour}
	if _, err := measure(t.Context(), []contender{{"fake", onRedis, f}}, f.conversation, p, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, s := range f.sessions[1:] { // the first one is from verify
		if s.steps > room(s.n) {
			t.Errorf("a session with %d messages was taken %d steps further", s.n, s.steps)
		}
	}
}

func TestMeasureTellsWhoFailed(t *testing.T) {
	f := &fake{conversation: newConversation(), fault: errors.New("disk full")}
	_, err := measure(t.Context(), []contender{{"fake", onRedis, f}}, f.conversation, plan{}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "fake on Redis: disk full") {
		t.Errorf("measure: %v", err)
	}
}

func TestVerifyFindsWhatIsNotKept(t *testing.T) {
	c := newConversation()
	other := *c
	other.Exchanges = append(slices.Clone(c.Exchanges[1:]), c.Exchanges[0])
	for name, wrong := range map[string]*conversation{
		"the state": &other,
		"messages":  {Question: "?", Answer: c.Answer, Exchanges: c.Exchanges, State: c.State},
	} {
		err := verify(t.Context(), &contender{name, onRedis, &fake{conversation: wrong}}, c)
		if err == nil || !strings.Contains(err.Error(), "read back") {
			t.Errorf("%s: verify: %v", name, err)
		}
	}
}

// ADK reads events of the same microsecond in any order.
func TestVerifyAcceptsAnyOrderOfTies(t *testing.T) {
	c := newConversation()
	want := c.after(6, 0).Messages
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	times := []time.Time{first, first, second, second, second, time.Unix(3, 0)}
	got := transcript{Messages: []message{want[1], want[0], want[4], want[2], want[3], want[5]}, Times: times}
	if got.settle(want); !slices.Equal(got.Messages, want) {
		t.Errorf("ties are %+v", got.Messages)
	}
	for name, wrong := range map[string]transcript{
		"of other times":   {Messages: []message{want[2], want[1], want[0], want[3], want[4], want[5]}, Times: times},
		"in certain order": {Messages: []message{want[1], want[0], want[2], want[3], want[4], want[5]}},
		"another message":  {Messages: []message{want[1], want[1], want[2], want[3], want[4], want[5]}, Times: times},
	} {
		if wrong.settle(want); slices.Equal(wrong.Messages, want) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTheConversationHasItsSizes(t *testing.T) {
	c := newConversation()
	for i, e := range c.Exchanges {
		if len(e.Text) != textBytes || len(encode(e.Input)) != inputBytes || len(e.Result) != resultBytes || len(e.Value) != fieldBytes {
			t.Errorf("step %d: %d, %d, %d, %d bytes", i, len(e.Text), len(encode(e.Input)), len(e.Result), len(e.Value))
		}
	}
	if len(c.State) != fields {
		t.Errorf("%d fields", len(c.State))
	}
	if a, b := encode(c), encode(newConversation()); string(a) != string(b) {
		t.Error("the conversation is another one each time")
	}
}

// madeUp returns invented results.
func madeUp() ([]contender, *results) {
	list := []contender{{floorName, onPostgres, nil}, {cairnName, onPostgres, nil}, {"LangGraph", onPostgres, nil},
		{floorName, onRedis, nil}, {cairnName, onRedis, nil}}
	r := &results{plan: plan{lengths: []int{10, 1000, 10_000}, writers: []int{1, 16}, rounds: 3, slice: 400 * time.Millisecond},
		cells: map[cellKey]*cell{}, bytes: map[bytesKey]float64{}}
	for i := range list {
		for _, n := range r.plan.lengths {
			speed := []float64{2000, 1800, 5000 / float64(n), 20_000, 16_000}[i]
			for _, writers := range r.plan.writers {
				at := speed * float64(writers) / 2
				r.cells[cellKey{i, n, writers}] = &cell{rates: []float64{1.1 * at, at, 0.8 * at}}
			}
			r.bytes[bytesKey{i, n}] = 3_000_000 / speed
		}
	}
	r.cells[cellKey{2, 10_000, 16}].rates = []float64{0.4, 0.6}
	return list, r
}

func TestTables(t *testing.T) {
	golden(t, "tables.md", tables(madeUp()))
}

func TestPlot(t *testing.T) {
	golden(t, "plot.svg", drawing(madeUp()))
}

func TestReportReplacesWhatIsBetweenItsMarks(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, benchmarksFile)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, r := madeUp()
	where := setting{Date: "2026-01-02", Machine: "2 processors", Args: "-rounds 3", Versions: map[string]string{}}
	for _, name := range []string{"Go", "PostgreSQL", "Redis", "Node.js", "@langchain/langgraph", "@langchain/langgraph-checkpoint-postgres",
		"google.golang.org/adk/v2", "trpc.group/trpc-go/trpc-agent-go", "trpc.group/trpc-go/trpc-agent-go/session/redis"} {
		where.Versions[name] = "v1"
	}
	write("# Benchmarks\n\n" + beginMark + "\nold\n" + endMark + "\n\n## More\n")
	if err := writeReport(dir, list, r, where); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.md.golden", string(got))
	if strings.Contains(string(got), "<no value>") {
		t.Error("a version is missing")
	}
	if svg, err := os.ReadFile(filepath.Join(dir, plotFile)); err != nil || string(svg) != drawing(list, r) {
		t.Errorf("the plot is not there: %v", err)
	}
	write("# Benchmarks\n")
	if err := writeReport(dir, list, r, where); err == nil || !strings.Contains(err.Error(), beginMark) {
		t.Errorf("a page without marks: %v", err)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-lengths", "10,11", `-lengths: "11" is not a positive multiple of 2`},
		{"-lengths", "", `-lengths: "" is not`},
		{"-writers", "0", `-writers: "0" is not`},
		{"-rounds", "0", "-rounds: 0 is less than 1"},
		{"-slice", "0s", "-slice and -budget"},
	} {
		err := run(t.Context(), []string{c.flag, c.value}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.flag, c.value, err, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0.0123: "0.012", 0.5: "0.50", 1: "1.0", 9.94: "9.9", 31.4: "31", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("%g is written %q, want %q", v, got, want)
		}
	}
}

func TestLangGraphIsPinned(t *testing.T) {
	type manifest struct {
		Dependencies map[string]string
	}
	var direct manifest
	var lock struct{ Packages map[string]manifest }
	for name, to := range map[string]any{"package.json": &direct, "package-lock.json": &lock} {
		data, err := langgraphFiles.ReadFile("langgraph/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, version := range direct.Dependencies {
		if strings.Trim(version, "0123456789.") != "" {
			t.Errorf("%s is %q, which is not one version", name, version)
		}
	}
	if !maps.Equal(direct.Dependencies, lock.Packages[""].Dependencies) {
		t.Error("package-lock.json is of another package.json")
	}
}

func TestInstallLangGraphTellsWhatFailed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := npm.Install(t.Context(), langgraphFiles, "langgraph", t.TempDir(), io.Discard)
	if err == nil || !strings.Contains(fmt.Sprint(err), "npm ci") {
		t.Errorf("without npm: %v", err)
	}
}
