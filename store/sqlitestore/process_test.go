package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// roles are what this test binary does when a test runs it as another process: role, database file, name. A role
// reports on its standard output, line by line, and waits for a line on its standard input where it must not continue
// by itself.
var roles = map[string]func(ctx context.Context, s *Store, name string, input *bufio.Scanner) error{
	"create": roleCreate,
	"race":   roleRace,
	"append": roleAppend,
	"stop":   roleStop,
	"steps":  roleSteps,
}

const roleVariable = "CAIRN_SQLITESTORE_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role, path, name string) error {
	s, err := Open(path, &Options{Synchronous: Normal})
	if err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	return errors.Join(roles[role](context.Background(), s, name, input), s.Close())
}

// process is this test binary in another role.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

func start(t *testing.T, role, path, name string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], path, name)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.output = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// proceed lets the process continue.
func (p *process) proceed() {
	p.t.Helper()
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		p.t.Error(err)
	}
}

// expect waits for a line.
func (p *process) expect(line string) {
	p.t.Helper()
	if !p.output.Scan() || p.output.Text() != line {
		p.t.Fatalf("the other process said %q, want %q", p.output.Text(), line)
	}
}

// finish returns the remaining lines, and fails the test if the process failed.
func (p *process) finish() (lines []string) {
	p.t.Helper()
	for p.output.Scan() {
		lines = append(lines, p.output.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the other process: %v", err)
	}
	return lines
}

func roleCreate(ctx context.Context, s *Store, name string, _ *bufio.Scanner) error {
	_, err := driver.Create(ctx, s, &cairn.Session{ID: name, Agent: "support"}, nil)
	return err
}

func TestProcessesOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	var others []*process
	for i := range 4 {
		others = append(others, start(t, "create", path, fmt.Sprint("session-", i)))
	}
	for _, p := range others {
		p.finish()
	}
	page, err := openAt(t, path, nil).List(t.Context(), driver.SessionQuery{})
	if err != nil || len(page.Items) != len(others) {
		t.Errorf("%d sessions, %v: want %d", len(page.Items), err, len(others))
	}
}

// races is the number of sessions, and of messages of one session, that two processes race for.
const races = 1000

// roleRace reports "created N" and "committed N" for the races that it wins.
func roleRace(ctx context.Context, s *Store, name string, input *bufio.Scanner) error {
	fmt.Println("ready")
	input.Scan()
	for i := range races {
		_, err := driver.Create(ctx, s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support", UserID: name}, nil)
		switch {
		case err == nil:
			fmt.Println("created", i)
		case !errors.Is(err, cairn.ErrExists):
			return err
		}
	}
	for {
		row, err := driver.Load(ctx, s, "shared")
		if err != nil || row.MessageCount >= races {
			return err
		}
		_, err = s.Commit(ctx, "shared", &driver.Commit{
			Guard:    driver.Guard{Version: row.Version},
			Messages: []cairn.Message{cairn.User(cairn.TextPart(fmt.Sprint(name, " ", row.MessageCount)))},
		})
		switch {
		case err == nil:
			fmt.Println("committed", name, row.MessageCount)
		case !errors.Is(err, cairn.ErrStale):
			return err
		}
	}
}

func TestProcessesRace(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "shared", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	others := []*process{start(t, "race", s.path, "left"), start(t, "race", s.path, "right")}
	for _, p := range others {
		p.expect("ready")
	}
	for _, p := range others {
		p.proceed()
	}
	winners := map[string]int{}
	var committed []string
	for _, p := range others {
		won := 0
		for _, line := range p.finish() {
			verb, what, _ := strings.Cut(line, " ")
			won++
			if verb == "committed" {
				committed = append(committed, what)
			} else {
				winners[what]++
			}
		}
		if won == 0 {
			t.Error("one process won nothing: there was no race")
		}
	}
	for i := range races {
		if n := winners[fmt.Sprint(i)]; n != 1 {
			t.Errorf("session %d was created %d times", i, n)
		}
	}
	messages, err := driver.AllMessages(t.Context(), s, "shared")
	if err != nil {
		t.Fatal(err)
	}
	var transcript []string
	for i := range messages {
		transcript = append(transcript, messages[i].Text())
	}
	slices.SortFunc(committed, func(a, b string) int { return number(t, a) - number(t, b) })
	if !slices.Equal(transcript, committed) {
		t.Errorf("the transcript has %d messages, %d commits were acknowledged; they are not the same", len(transcript), len(committed))
	}
	if len(committed) != races {
		t.Errorf("%d commits won, want %d", len(committed), races)
	}
}

// number returns the number at the end of a line.
func number(t *testing.T, line string) int {
	t.Helper()
	n, err := strconv.Atoi(line[strings.LastIndex(line, " ")+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// manyEvents is the number of events that roleAppend appends, three at a time.
const manyEvents = 300

func roleAppend(ctx context.Context, s *Store, name string, input *bufio.Scanner) error {
	input.Scan()
	for i := 0; i < manyEvents; i += 3 {
		ev := cairn.Event{Type: cairn.EventTextDelta, Text: "some text"}
		if _, err := s.EventLog().Append(ctx, name, int64(i), ev, ev, ev); err != nil {
			return err
		}
	}
	return nil
}

func TestFollowAnotherProcess(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := start(t, "append", s.path, "log")
	log := s.EventLog()
	if _, err := log.Append(t.Context(), "unrelated", 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
		t.Fatal(err)
	}
	// The second follower checks that logs are distinguished.
	go func() {
		for range log.Follow(t.Context(), "unrelated", 0) {
		}
	}()
	other.proceed()
	next := int64(1)
	for ev, err := range log.Follow(t.Context(), "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Sequence != next {
			t.Fatalf("sequence %d, want %d", ev.Sequence, next)
		}
		if next++; next > manyEvents {
			break
		}
	}
	other.finish()
}

func roleStop(ctx context.Context, s *Store, name string, input *bufio.Scanner) error {
	for _, kind := range []cairn.StopKind{cairn.StopInterrupt, cairn.StopInterrupt, cairn.StopAbort} {
		input.Scan()
		if err := s.RequestStop(ctx, name, cairn.Stop{RunID: "run", Kind: kind}); err != nil {
			return err
		}
		fmt.Println(kind)
	}
	return nil
}

func TestWatchStopsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	begin := func(id string) {
		t.Helper()
		_, err := s.Commit(t.Context(), id, &driver.Commit{Create: &cairn.Session{Agent: "support"},
			StartRun: &cairn.Run{ID: "run", Status: cairn.RunRunning}, Status: cairn.SessionActive})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin("session")
	begin("before")
	if err := s.RequestStop(t.Context(), "before", cairn.Stop{RunID: "run", Kind: cairn.StopAbort}); err != nil {
		t.Fatal(err)
	}
	local, others := make(chan driver.StopNotice, 1000), make(chan driver.StopNotice, 8)
	go func() {
		for n, err := range s.WatchStops(t.Context()) {
			switch {
			case err != nil:
				t.Errorf("watch: %v", err)
				return
			case strings.HasPrefix(n.SessionID, "local"):
				local <- n
			default:
				others <- n
			}
		}
	}()
	// The watch has begun when it reports a stop that was requested here.
	for i := 0; len(local) == 0; i++ {
		id := fmt.Sprint("local-", i)
		begin(id)
		if err := s.RequestStop(t.Context(), id, cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt}); err != nil {
			t.Fatal(err)
		}
	}
	other := start(t, "stop", s.path, "session")
	want := func(id string, kind cairn.StopKind) {
		t.Helper()
		if n := <-others; n.SessionID != id || n.Stop.RunID != "run" || n.Stop.Kind != kind || n.Stop.At.IsZero() {
			t.Errorf("notice %+v, want %s of the run of session %q", n, kind, id)
		}
	}
	want("before", cairn.StopAbort)
	other.proceed()
	want("session", cairn.StopInterrupt)
	other.proceed() // changes nothing
	other.proceed()
	want("session", cairn.StopAbort)
	other.finish()
}

// roleSteps commits until it is killed, and reports the number of each acknowledged commit, from 2. A step has two messages, a
// change of state, an event before it and sometimes a checkpoint.
func roleSteps(ctx context.Context, s *Store, name string, _ *bufio.Scanner) error {
	row, err := driver.Load(ctx, s, name)
	for err == nil {
		next := fmt.Sprint(row.MessageCount/2 + 2)
		var last int64
		if last, err = s.EventLog().Append(ctx, name, driver.AnySequence, cairn.Event{Type: cairn.EventStepStart}); err != nil {
			return err
		}
		row, err = s.Commit(ctx, name, &driver.Commit{
			Guard:       driver.Guard{Version: row.Version},
			Messages:    []cairn.Message{cairn.User(cairn.TextPart(next)), cairn.User(cairn.TextPart(next))},
			State:       &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/commit", Value: []byte(next)}}},
			Checkpoint:  &cairn.Checkpoint{ID: "checkpoint-" + next, StepID: "step-" + next},
			LogSequence: last,
		})
		if err == nil {
			fmt.Println(next)
		}
	}
	return err
}

func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := openAt(t, path, &Options{Synchronous: Normal})
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 15 {
		if err := s.Close(); err != nil { // so that the killed process is the only one, and its log is recovered
			t.Fatal(err)
		}
		p := start(t, "steps", path, "session")
		acknowledged := int64(0)
		for n := 1 + random.IntN(60); n > 0 && p.output.Scan(); n-- {
			acknowledged = int64(number(t, p.output.Text()))
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.output.Scan() { // acknowledged, but not read yet
			acknowledged = int64(number(t, p.output.Text()))
		}
		p.cmd.Wait() // killed
		s = openAt(t, path, &Options{Synchronous: Normal})
		checkSteps(t, s, acknowledged)
	}
}

// checkSteps checks that a session driven by roleSteps has every commit up to at least a number, each of them whole.
func checkSteps(t *testing.T, s *Store, atLeast int64) {
	t.Helper()
	snap, err := s.Read(t.Context(), "session", driver.ToDrive(0))
	if err != nil {
		t.Fatal(err)
	}
	row := snap.Session
	last := int64(row.MessageCount/2 + 1)
	if last < atLeast {
		t.Errorf("the last commit is %d, but %d was acknowledged", last, atLeast)
	}
	if len(snap.Messages) != row.MessageCount || row.MessageCount%2 != 0 {
		t.Errorf("%d messages, counted are %d", len(snap.Messages), row.MessageCount)
	}
	for i := range snap.Messages {
		if want := fmt.Sprint(i/2 + 2); snap.Messages[i].Text() != want {
			t.Fatalf("message %d is of commit %s, want %s", i, snap.Messages[i].Text(), want)
		}
	}
	if want := fmt.Sprintf(`{"commit":%d}`, last); last > 1 && string(snap.State) != want {
		t.Errorf("state %s, want %s", snap.State, want)
	}
	if cp, err := driver.FindCheckpoint(t.Context(), s, "session", fmt.Sprint("checkpoint-", last)); last > 1 &&
		(err != nil || cp.MessageCount != row.MessageCount || cp.Number != last-1) {
		t.Errorf("checkpoint %+v, %v", cp, err)
	}
	if _, end, err := s.EventLog().Bounds(t.Context(), "session"); err != nil || end < row.LogSequence {
		t.Errorf("the log ends at %d, %v: the session is at %d", end, err, row.LogSequence)
	}
	var verdict string
	err = s.readers.read(t.Context(), func(c *conn) error {
		_, err := c.row(`PRAGMA integrity_check`, func(cols *columns) { verdict = cols.text() })
		return err
	})
	if err != nil || verdict != "ok" {
		t.Errorf("integrity check: %s, %v", verdict, err)
	}
}
