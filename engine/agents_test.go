package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A run under way keeps its agent, and the agents it delegates to, when others are registered; the next run uses the
// new ones.
func TestAgentsAreReplaced(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("helped"))}
	old := bot(scripted.New(scripted.Call("hold", in{"x"}).ID("c1"), scripted.Call("helper", map[string]string{"input": "go"}).ID("c2"), scripted.Text("the old one")),
		tool("hold", func(context.Context, *cairn.Call, in) (string, error) {
			close(began)
			<-release
			return "held", nil
		}), cairn.SubAgent(helper))
	st := memstore.New(nil)
	eng := open(t, st, old)
	run := start(t, eng, "s", "hi")
	<-began
	if err := eng.Replace(bot(scripted.New(scripted.Text("the new one"))), &cairn.Agent{Name: "other", Model: scripted.New()}); err != nil {
		t.Fatal(err)
	}
	close(release)
	if res := wait(t, run); res.Status != cairn.RunCompleted || res.Text != "the old one" {
		t.Errorf("the run under way ended %s with %q", res.Status, res.Text)
	}
	if r := result(t, messages(t, st, "s"), callOf(t, st, "s", 1)); r.IsError || string(r.Output) != `"helped"` {
		t.Errorf("its sub-agent, which is not registered any more, came to %s", r.Output)
	}
	if res := turn(t, eng, "s", "again"); res.Text != "the new one" {
		t.Errorf("the next turn says %q", res.Text)
	}
	if _, err := eng.Execute(t.Context(), "t", "helper", cairn.Text("hi")); err == nil {
		t.Error("an agent runs that is not registered any more")
	}
	if _, err := eng.Execute(t.Context(), "t", "other", cairn.Text("hi")); err != nil {
		t.Errorf("an agent that was added does not run: %v", err)
	}
}

func TestAgentsThatAreWrongReplaceNone(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("still here"))))
	twice := &cairn.Agent{Name: "twice", Model: scripted.New()}
	for name, list := range map[string][]*cairn.Agent{
		"nil": {nil}, "without a model": {{Name: "empty"}}, "of one name": {twice, {Name: "twice", Model: scripted.New()}},
		"of the name of a sub-agent": {twice, bot(scripted.New(), cairn.SubAgent(&cairn.Agent{Name: "twice", Model: scripted.New()}))},
	} {
		wantError(t, eng.Replace(list...), cairn.ErrInvalid)
		if t.Failed() {
			t.Fatalf("agents %s", name)
		}
	}
	if res := turn(t, eng, "s", "hi"); res.Text != "still here" {
		t.Errorf("the agent says %q", res.Text)
	}
}

// versions returns two versions of an agent that first asks a client and then says which version it is.
func versions(keep bool) (first, second *cairn.Agent) {
	of := func(version string) *cairn.Agent {
		a := bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			if last := r.Messages[len(r.Messages)-1]; last.Role == cairn.RoleUser && last.Text() == "ask" {
				return scripted.Call("where", struct{}{})
			}
			return scripted.Text("version " + version)
		}), cairn.ClientTool[struct{}, string]("where", "Where the user is."))
		a.Version, a.KeepVersion = version, keep
		return a
	}
	return of("1"), of("2")
}

// A turn has one version of its agent from its beginning to its end, however long it is suspended and whichever process
// resumes it. The next turn has the latest version, or the previous turn's if the agent says so. Each run names its
// version.
func TestVersionsOfAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep bool
		next string
	}{"follow": {false, "2"}, "keep": {true, "1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			first, second := versions(c.keep)
			eng := open(t, st, first)
			res := turn(t, eng, "s", "ask")
			if err := eng.Replace(first, second); err != nil {
				t.Fatal(err)
			}
			other := open(t, st, first, func(o *engine.Options) { o.NewID = counted("other") }) // as another process
			if err := other.Replace(first, second); err != nil {
				t.Fatal(err)
			}
			for _, e := range []*engine.Engine{eng, other} {
				if res.Suspended == nil {
					t.Fatalf("the run came to %+v", res)
				}
				if _, err := e.Submit(t.Context(), "s", cairn.Answer(res.Suspended.Calls[0], "here")); err != nil {
					t.Fatal(err)
				}
				run, err := e.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				want := "version 1"
				if e == other {
					want = "version " + c.next
				}
				if res := wait(t, run); res.Text != want {
					t.Errorf("the resumed run says %q, want %q", res.Text, want)
				}
				if e == eng {
					res = turn(t, eng, "s", "ask")
				}
			}
			if res := turn(t, other, "s", "hi"); res.Text != "version "+c.next {
				t.Errorf("the next turn says %q", res.Text)
			}
			if res := turn(t, other, "new", "hi"); res.Text != "version 2" {
				t.Errorf("a new session says %q", res.Text)
			}
			page, err := other.Runs(t.Context(), "s", store.PageQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range page.Items {
				got = append(got, r.AgentVersion)
			}
			if want := []string{"1", "1", c.next, c.next, c.next}; !slices.Equal(got, want) {
				t.Errorf("the runs have the versions %q, want %q", got, want)
			}
		})
	}
}

// A run whose process died keeps its version; if that is missing, the latest takes it over.
func TestVersionAfterCrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has  func(first, second *cairn.Agent) []*cairn.Agent
		want string
	}{
		"both":   {func(first, second *cairn.Agent) []*cairn.Agent { return []*cairn.Agent{first, second} }, "version 1"},
		"latest": {func(_, second *cairn.Agent) []*cairn.Agent { return []*cairn.Agent{second} }, "version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			first, second := versions(false)
			hold := make(chan struct{})
			defer close(hold)
			stuck := bot(scripted.New(scripted.Gate(hold)))
			stuck.Version = "1"
			eng := open(t, st, stuck)
			start(t, eng, "s", "hi")
			closing, cancel := context.WithCancel(t.Context())
			cancel()
			eng.Close(closing) // the run is released where it stands
			other := open(t, st, second, func(o *engine.Options) { o.NewID = counted("other") })
			if err := other.Replace(c.has(first, second)...); err != nil {
				t.Fatal(err)
			}
			run, err := other.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			if res := wait(t, run); res.Text != c.want {
				t.Errorf("it says %q, want %q", res.Text, c.want)
			}
		})
	}
}
