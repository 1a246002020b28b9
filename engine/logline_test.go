package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// lines collects the log lines with a stable name, as "level name attribute=value …".
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, " ") || !strings.Contains(r.Message, ".") {
		return nil
	}
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, text)
	return nil
}

// names returns the levels and names of the lines so far.
func (l *lines) names() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.list {
		list = append(list, strings.Join(strings.Fields(text)[:2], " "))
	}
	return list
}

func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(text string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
	})
}

// to makes an engine log to l.
func (l *lines) to(o *engine.Options) { o.Logger = slog.New(l) }

// What happens to calls and runs is logged under stable names, at the levels that the guide lists.
func TestLogLines(t *testing.T) {
	t.Parallel()
	approving := func(steps ...scripted.Step) *cairn.Agent {
		return bot(scripted.New(append([]scripted.Step{scripted.Call("pay", in{"5"})}, steps...)...), echo("pay", cairn.RequireApproval()))
	}
	for name, test := range map[string]struct {
		agent *cairn.Agent
		then  func(t *testing.T, eng *engine.Engine, res *cairn.Result)
		want  []string
		says  []string // of the last line
	}{
		"approved": {approving(scripted.Text("ok")), func(t *testing.T, eng *engine.Engine, res *cairn.Result) {
			testclock.Advance(90 * time.Second)
			answerBy(t, eng, cairn.Approve(res.Suspended.Calls[0]).By("rita"))
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			if usage := wait(t, run).Usage; usage.WaitSeconds != 90 {
				t.Errorf("the calls of the run waited for %d seconds", usage.WaitSeconds)
			}
		}, []string{"INFO call.suspended", "INFO call.submitted", "INFO run.resumed"}, []string{"session=s", "agent=bot", "previous="}},
		"denied": {approving(), func(t *testing.T, eng *engine.Engine, res *cairn.Result) {
			answerBy(t, eng, cairn.Deny(res.Suspended.Calls[0], "too much").By("rita"))
		}, []string{"INFO call.suspended", "INFO call.submitted", "INFO call.denied"}, []string{"tool=pay", "kind=approval", "reviewer=rita", "reason=too much"}},
		"timed out": {asking(scripted.Text("too late")), func(t *testing.T, eng *engine.Engine, _ *cairn.Result) {
			testclock.Advance(10 * time.Minute)
			if _, err := eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}, []string{"INFO call.suspended", "WARN call.timeout", "INFO run.resumed"}, nil},
		"failed": {bot(scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "400: the field foo of the request is odd")))), nil,
			[]string{"ERROR run.failed"}, []string{"session=s", "code=model_request", "error=", "400: the field foo of the request is odd"}},
		"aborted": {approving(), func(t *testing.T, eng *engine.Engine, _ *cairn.Result) {
			if err := eng.Abort(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
		}, []string{"INFO call.suspended", "INFO run.aborted"}, []string{"code=aborted", "enough"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := &lines{}
				eng := open(t, tapOn(nil), test.agent, log.to)
				res := turn(t, eng, "s", "go")
				if test.then != nil {
					test.then(t, eng, res)
				}
				synctest.Wait()
				if got := log.names(); !slices.Equal(got, test.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(log.list, "\n"), strings.Join(test.want, "\n"))
				}
				if last := test.want[len(test.want)-1]; !log.has(append(test.says, last)...) {
					t.Errorf("got\n%s\nwant %s with %q", strings.Join(log.list, "\n"), last, test.says)
				}
			})
		})
	}
}

func answerBy(t *testing.T, eng *engine.Engine, s cairn.Submission) {
	t.Helper()
	if _, err := eng.Submit(t.Context(), "s", s); err != nil {
		t.Fatal(err)
	}
}

// A worker that closes a call at its deadline says so.
func TestWorkerLogsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		eng := open(t, tapOn(nil), asking(scripted.Text("too late")), log.to)
		turn(t, eng, "s", "go")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go eng.Work(ctx)
		testclock.Advance(11 * time.Minute)
		if !log.has("WARN call.timeout", "tool=ask", "session=s") {
			t.Errorf("got %v", log.names())
		}
	})
}

// A sub-agent that cannot begin is a warning, since the parent's turn continues.
func TestFailedStartOfSubAgentIsLogged(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: scripted.New()}
	agent := bot(scripted.New(scripted.Call("helper", map[string]string{"input": "help"}), scripted.Text("ok")), cairn.SubAgent(helper))
	log := &lines{}
	turn(t, open(t, tapOn(nil), agent, log.to), "s", "go", engine.WithDepth(8)) // the limit
	if !log.has("WARN subagent.start_failed", "session=s", "subagent=helper", "code=") {
		t.Errorf("got %v", log.names())
	}
}

// The guide lists every stable name.
func TestLogLinesAreListed(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../internal/turn/lifecycle/logline.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for part := range strings.SplitSeq(string(source), `"`) {
		if strings.Contains(part, ".") && !strings.ContainsAny(part, " /\n") {
			n++
			if !strings.Contains(string(guide), "| `"+part+"` |") {
				t.Errorf("the guide does not list %s", part)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d names were found", n)
	}
}
