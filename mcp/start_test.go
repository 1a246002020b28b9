package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// slowServer serves once a file allows it.
func slowServer(dir string) error {
	if err := testclock.Poll(context.Background(), func() bool { return len(notes(dir, "start")) > 0 }); err != nil {
		return err
	}
	return bench(dir).Run(context.Background(), &sdk.StdioTransport{})
}

// noisyServer prints lines before and between messages.
func noisyServer(dir string) error {
	fmt.Print("Welcome to the bench!\n\n[info] listening\n{not json}\n{\"level\":\"info\",\"msg\":\"up\"}\n[{\"level\":30}]\n[]\n{}\nnull\n\"text\"\n123\n")
	for i := range 100 {
		fmt.Printf("line %d\n", i)
	}
	if limit := os.Getenv("MCP_TEST_NOISE"); limit != "" {
		fmt.Print(strings.Repeat(strings.Repeat("x", 1023)+"\n", 2000))
	}
	fmt.Print(strings.Repeat("y", 200<<10), "\n")
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(noisy{os.Stdout}, r)
		r.CloseWithError(err)
	}()
	return bench(dir).Run(context.Background(), &sdk.IOTransport{Reader: os.Stdin, Writer: w})
}

// noisy writes a line after each write.
type noisy struct{ io.Writer }

func (n noisy) Write(p []byte) (int, error) {
	c, err := n.Writer.Write(p)
	if err == nil && strings.HasSuffix(string(p), "\n") {
		_, err = fmt.Fprintln(n.Writer, "sent")
	}
	return c, err
}

// lines collects log lines.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

// starter is an engine whose model says how many tools it has.
func starter(t *testing.T, s *mcp.Server, logger *slog.Logger) *engine.Engine {
	t.Helper()
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		return scripted.Text(fmt.Sprintf("%d tools", len(req.Tools)))
	})
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: model, Toolsets: []cairn.Toolset{s}}}, &engine.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	return eng
}

// missing returns the events of turns without tools.
func missing(t *testing.T, eng *engine.Engine) (list []cairn.Event) {
	t.Helper()
	all, err := eng.History(t.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range all {
		if ev.Type == cairn.EventToolsMissing {
			list = append(list, ev)
		}
	}
	return list
}

// A turn that runs without a server's tools says so, in an event and in a line of the log at the default level.
func TestTurnWithoutServerSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := command(t, "slow", dir, mcp.Options{ListTimeout: 50 * time.Millisecond})
	var log lines
	eng := starter(t, s, log.logger())
	for turn := 1; turn <= 2; turn++ {
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "0 tools" {
			t.Fatalf("the turn came to %+v, %v", res, err)
		}
		list := missing(t, eng)
		if len(list) != turn || list[turn-1].Name != "bench" || list[turn-1].RunID == "" || list[turn-1].Error == nil || list[turn-1].Error.Code != cairn.ErrUnavailable {
			t.Errorf("after turn %d the events are %+v", turn, list)
		}
		if n := log.count("level=WARN msg=\"toolset failed; the turn runs without its tools\" session=s agent=bot toolset=bench"); n != turn {
			t.Errorf("after turn %d the log has %d lines: %s", turn, n, log.all.String())
		}
	}
	note(dir, "start", "now")
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text == "0 tools" || len(missing(t, eng)) != 2 {
		t.Errorf("the turn after the start came to %+v, %v, %+v", res, err, missing(t, eng))
	}
}

// Turns do not run without a required server: they wait for it, or fail.
func TestRequiredServer(t *testing.T) {
	t.Parallel()
	t.Run("starts in time", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := command(t, "slow", dir, mcp.Options{Required: true})
		eng := starter(t, s, nil)
		run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		note(dir, "start", "now")
		if res, err := run.Wait(t.Context()); err != nil || res.Text == "0 tools" || len(missing(t, eng)) != 0 {
			t.Errorf("the turn came to %+v, %v", res, err)
		}
	})
	for name, open := range map[string]func(t *testing.T, opts mcp.Options) *mcp.Server{
		"does not start in time": func(t *testing.T, opts mcp.Options) *mcp.Server {
			opts.ListTimeout = 50 * time.Millisecond
			return command(t, "slow", t.TempDir(), opts)
		},
		"cannot start": func(t *testing.T, opts mcp.Options) *mcp.Server {
			opts.ListTimeout = testWait
			s, err := mcp.Command("bench", []string{filepath.Join(t.TempDir(), "nothing")}, &opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := starter(t, open(t, mcp.Options{Required: true}), nil)
			for range 2 { // whether or not the server is known to be slow
				run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
				if err != nil {
					t.Fatal(err)
				}
				res, err := run.Wait(t.Context())
				if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), `"bench"`) {
					t.Errorf("the turn came to %+v, %v", res, err)
				}
			}
		})
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := command(t, "slow", dir, mcp.Options{ListTimeout: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"bench"`) {
		t.Errorf("before the server has started: %v", err)
	}
	note(dir, "start", "now")
	for range 2 {
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	eng := starter(t, s, nil)
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text == "0 tools" {
		t.Errorf("the first turn came to %+v, %v", res, err)
	}
	s.Close()
	if err := s.Ready(t.Context()); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("a closed server: %v", err)
	}
	broken, err := mcp.Command("broken", []string{filepath.Join(dir, "nothing")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broken.Close() })
	if err := broken.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `"broken"`) {
		t.Errorf("a command that does not exist: %v", err)
	}
}

// Lines of a standard output that are not messages are skipped, and some of them logged.
func TestNoisyServer(t *testing.T) {
	t.Parallel()
	var log lines
	s := command(t, "noisy", t.TempDir(), mcp.Options{Logger: log.logger()})
	k := newTalk(t, []cairn.Toolset{s}, asks("bench_echo", text{"hello"}), asks("bench_weather", none{}))
	k.turn("go")
	if r := k.results(); len(r) != 2 || string(r[0].Output) != `"you said hello"` || string(r[1].Output) != `{"degrees":21}` {
		t.Errorf("the calls came to %+v", r)
	}
	if n := log.count("not a message"); n != 20 || log.count("Welcome to the bench!") != 1 {
		t.Errorf("%d lines were logged: %s", n, log.all.String())
	}

	s = command(t, "noisy", t.TempDir(), mcp.Options{Env: []string{"MCP_TEST_NOISE=1"}})
	if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "not messages") {
		t.Errorf("a server that prints without end: %v", err)
	}
}
