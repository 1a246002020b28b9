package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

const (
	// asCairn makes the test binary behave as the command, so that tests can kill it.
	asCairn = "CAIRN_TEST_AS_COMMAND"
	// withHostGrace is how long that command leaves a run to a host that it does not have; unset means the engine's
	// default.
	withHostGrace = "CAIRN_TEST_HOST_GRACE"
	// withLease is the length of that command's leases; unset means the command's default.
	withLease = "CAIRN_TEST_LEASE"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(asReaderServer); at != "" {
		if err := serveReaders(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(asCairn) == "" {
		testenv.Main(m)
	}
	a := &cli.App{Program: cli.Called(os.Args[0]), Env: cli.Environment(os.Environ()), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	a.Engine.HostGrace, a.Engine.LeaseTTL = durationOf(withHostGrace), durationOf(withLease)
	os.Exit(perform(a, os.Args[1:]))
}

// durationOf returns the value of a variable; 0 if it is unset.
func durationOf(variable string) time.Duration {
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	return must(time.ParseDuration(text))
}

// bench is a directory with databases, a clock that stands still during a command, and numbered ids.
type bench struct {
	dir   string
	env   map[string]string
	names map[string]string // names of ids in scripts
	// everyday makes commands use the real clock and random ids.
	everyday bool
	reach    time.Duration // time to reach a host; 0 means the command's default
	program  string        // the program that start runs; empty for the test itself

	mu    sync.Mutex
	clock time.Time
	ids   map[string]int
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	return &bench{
		dir:   dir,
		env:   map[string]string{"CAIRN_DB": filepath.Join(dir, "cairn.db"), "TEMPORAL_CONFIG_FILE": os.DevNull},
		clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		ids:   map[string]int{},
	}
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clock
}

// advance moves the clock. Engines of before may still read it.
func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = b.clock.Add(d)
}

func (b *bench) newID(prefix string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids[prefix]++
	return fmt.Sprintf("%s_%d", prefix, b.ids[prefix])
}

// run performs one command line in this process, a minute after the previous one.
func (b *bench) run(stdin string, args ...string) (stdout, stderr string, code int) {
	b.advance(time.Minute)
	var out, errs bytes.Buffer
	a := &cli.App{
		Env: b.env, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Reach: b.reach,
	}
	if !b.everyday {
		// A heartbeat of a slow process would move the ends of leases, which scripts print.
		a.Engine = engine.Options{Now: b.now, NewID: b.newID, Coalesce: -1, LeaseTTL: time.Minute}
	}
	code = perform(a, args)
	return strings.ReplaceAll(out.String(), b.dir, "DIR"), strings.ReplaceAll(errs.String(), b.dir, "DIR"), code
}

// TestScripts plays the files in testdata: command lines after "$ cairn", their input after "<", and the expected
// output: standard output, standard error after "!", and the exit code if it is not 0.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			wantScript(t, newBench(t), file)
		})
	}
}

// wantScript plays one script.
func wantScript(t *testing.T, b *bench, file string) {
	t.Helper()
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := play(b, string(script))
	switch {
	case got == string(script):
	case *update:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the output differs; -update rewrites it\n%s", file, firstDifference(string(script), got))
	}
}

var word = regexp.MustCompile(`"[^"]*"|\S+`)

// version is the version of a session that was written more than once: it grows by random steps.
var version = regexp.MustCompile(`(?m)(^version {6}|"version": )\d{3,}\b`)

// play returns the script with the actual output of its commands.
func play(b *bench, script string) string {
	var got strings.Builder
	names := secretNames{}
	for _, name := range slices.Sorted(maps.Keys(b.names)) {
		names.hide(b.names[name])
	}
	lines := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		command, isCommand := strings.CutPrefix(line, "$ cairn")
		if !isCommand {
			if strings.HasPrefix(line, "# ") {
				fmt.Fprintln(&got, line)
			}
			continue
		}
		fmt.Fprintln(&got, line)
		var stdin strings.Builder
		for ; i+1 < len(lines) && strings.HasPrefix(lines[i+1], "< "); i++ {
			fmt.Fprintln(&got, lines[i+1])
			fmt.Fprintln(&stdin, lines[i+1][2:])
		}
		var args []string
		for _, w := range word.FindAllString(command, -1) {
			w = names.reveal(strings.ReplaceAll(strings.Trim(w, `"`), "DIR", b.dir))
			args = append(args, cmp.Or(b.names[w], w))
		}
		stdout, stderr, code := b.run(stdin.String(), args...)
		got.WriteString(names.hide(stdout))
		for _, line := range strings.SplitAfter(names.hide(stderr), "\n") {
			if line != "" {
				got.WriteString("! " + line)
			}
		}
		if code != cli.ExitOK {
			fmt.Fprintf(&got, "[exit %d]\n", code)
		}
		fmt.Fprintln(&got)
	}
	return version.ReplaceAllString(got.String(), "${1}N")
}

// secretNames replaces random ids with numbered ones of the same length.
type secretNames map[string]string

var secretID = regexp.MustCompile(`(call|approval|child|mem)_[a-z2-7]{26}\b`)

// incarnation matches incarnations in the JSON of sessions and events, and where a list of events continues.
var incarnation = regexp.MustCompile(`("(?:incarnation|cursor|next)": ?"|more: --after )[a-z2-7]{12}\b`)

func (n secretNames) hide(text string) string {
	text = incarnation.ReplaceAllString(text, "${1}000000000000")
	return secretID.ReplaceAllStringFunc(text, func(id string) string {
		if n[id] == "" {
			kind, _, _ := strings.Cut(id, "_")
			n[id] = fmt.Sprintf("%s_%026d", kind, len(n)+1)
		}
		return n[id]
	})
}

func (n secretNames) reveal(text string) string {
	for id, name := range n {
		text = strings.ReplaceAll(text, name, id)
	}
	return text
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d:\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}
