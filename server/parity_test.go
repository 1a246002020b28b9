package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
)

// comparison is one row of the comparison with a backend of the AI SDK's: what a user does, and whether pages then show
// the same.
type comparison struct {
	name string
	// majors are the versions of the client; nil means all.
	majors []int
	todo   []string
	// differs says why pages do not show the same, and want what the page of a Cairn server shows instead. in are the
	// majors that differ; nil means all. Without want the last page is compared, and only the ends of its requests differ.
	differs string
	in      []int
	want    string
	// usage compares the tokens that the metadata of turns has.
	usage bool
}

var comparisons = []comparison{
	{name: "Text", todo: []string{"say=hi", "say=hi"}, usage: true},
	{name: "Reasoning", todo: []string{"ask=slowly, aloud", "until=Once", "release=slowly, aloud", "idle"}, usage: true},
	{name: "A tool of the server", todo: []string{"say=look"}, usage: true},
	{name: "A tool that fails", todo: []string{"say=broken"}, usage: true},
	{name: "A tool of the page", todo: []string{"say=where"}, usage: true},
	{name: "A file of the model", todo: []string{"say=draw"}, usage: true},
	{name: "Sources", todo: []string{"say=cite"}, usage: true},
	{name: "An answer that reaches the model's limit", todo: []string{"say=long"}, usage: true},
	{name: "Data that a tool emits, one part of it updated by its id", todo: []string{"say=report"}, usage: true},
	{name: "A message with data and metadata", todo: []string{"send=hi+data"}},
	{name: "A message of data only", todo: []string{"send=data"}},
	{name: "Another answer", todo: []string{"say=hi", "regenerate"}},
	{name: "An edited message", todo: []string{"say=hi", "edit=look"}},
	{name: "A model error after the first words", todo: []string{"say=fail"}},
	{name: "A message after a model error", todo: []string{"say=fail", "say=hi"}},
	{name: "`resume: true` on a new chat", todo: []string{"resume"}},
	{name: "A reload in the middle of an answer", todo: []string{"ask=slowly, reloaded", "until=Once", "reload", "until=Once", "release=slowly, reloaded", "idle"}},
	{name: "An open approval", majors: []int{6, 7}, todo: []string{"say=pay"}, usage: true},
	{name: "An approval", majors: []int{6, 7}, todo: []string{"say=pay", "approve"}, usage: true},
	{name: "An approval with a reason", majors: []int{6, 7}, todo: []string{"say=pay", "approve=fine"}, usage: true},
	{name: "An approval after a reload", majors: []int{6, 7}, todo: []string{"say=pay", "reload", "idle", "approve"}, usage: true},
	{name: "A denial", majors: []int{6, 7}, todo: []string{"say=pay", "deny=no"}, usage: true},
	{name: "A stop in the middle of an answer", todo: []string{"ask=slowly, stopped", "until=Once", "interrupt", "idle"}, in: []int{7},
		differs: "equal for 5 and 6; a page of 7 gets the finish reason `interrupted`, which pauses its queue"},
	{name: "The page's own stop", todo: []string{"ask=slowly, halted", "until=Once", "halt", "idle"}},
	{name: "A stop while a tool runs", todo: []string{"ask=hang", "until=tool-hang", "interrupt", "idle"},
		differs: "the call gets the result that it was stopped, and the page does not post; the AI SDK leaves it without a result", want: `
user: "hang"
assistant: hang({}) output-error
ready, 1 posts`},
	{name: "An approval with a changed input", majors: []int{6, 7}, todo: []string{"say=pay", `edited={"cents":50}`},
		differs: "the part shows the input that the tool ran with; the AI SDK has no changed inputs", want: `
user: "pay"
assistant: "Let me pay. " pay({"cents":50}) output-available "paid 50" approved "That is that."
ready, 2 posts`},
	{name: "An open approval on version 5, after a reload", majors: []int{5}, todo: []string{"say=pay", "reload", "idle", "accept"},
		differs: "a `data-approval` part asks for it, before and after the reload; version 5 of the AI SDK has no approvals", want: `
user: "pay"
assistant: "Let me pay. " pay({"cents":100}) output-available "paid 100" "That is that."
ready, 2 posts`},
}

// rendered formats what a page shows: for each message its metadata as far as it is compared, its parts, and those of
// them that are data behind the others, since the AI SDK may show data of a tool before its call.
func (p *htmlPage) rendered(usage bool) string {
	var b strings.Builder
	for _, m := range p.Messages {
		b.WriteString(m.Role + ":")
		var data []string
		for _, part := range m.Parts {
			switch {
			case part.Type == "text":
				fmt.Fprintf(&b, " %q", part.Text)
			case part.Type == "reasoning":
				fmt.Fprintf(&b, " (%s)", part.Text)
			case part.CallID != "":
				fmt.Fprintf(&b, " %s(%s) %s", strings.TrimPrefix(part.Type, "tool-"), part.Input, part.State)
				if len(part.Output) > 0 {
					fmt.Fprintf(&b, " %s", part.Output)
				}
				if by := part.Approval; by != nil && by.Approved != nil {
					fmt.Fprintf(&b, " %s", strings.TrimSpace(map[bool]string{true: "approved ", false: "denied "}[*by.Approved]+by.Reason))
				}
			case part.Type == "file":
				b.WriteString(" file " + part.MediaType)
			case part.SourceID != "":
				fmt.Fprintf(&b, " %s %s %q", part.Type, part.URL, part.Title)
			case part.Type == "data-approval":
				if !strings.Contains(string(part.Data), `"settled":true`) {
					b.WriteString(" asks for approval")
				}
			case part.Type != "step-start":
				data = append(data, fmt.Sprintf(" %s#%s %s", part.Type, part.ID, part.Data))
			}
		}
		b.WriteString(strings.Join(data, ""))
		switch used, _ := m.All["usage"].(map[string]any); {
		case m.Role == "user" && m.All != nil:
			fmt.Fprintf(&b, " with %v", m.All)
		case m.Role == "assistant" && usage:
			fmt.Fprintf(&b, " used %v and %v", used["input_tokens"], used["output_tokens"])
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s, %d posts", p.Status, p.Posts)
	if len(p.Errors) > 0 {
		fmt.Fprintf(&b, ", %d errors", len(p.Errors))
	}
	return b.String()
}

// comparedWorld is a server whose model and tools are those of testdata/backend.mjs.
func comparedWorld(t *testing.T) *world {
	t.Helper()
	type none struct{}
	tools := []cairn.Tool{
		cairn.ClientTool[none, map[string]string]("locate", "Where the user is."),
		cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, none) (string, error) { return "a tree", nil }),
		cairn.Func("broken", "Fails.", func(context.Context, *cairn.Call, none) (string, error) { return "", errors.New("out of order") }),
		cairn.Func("hang", "Hangs.", func(ctx context.Context, _ *cairn.Call, _ none) (string, error) {
			select {
			case <-ctx.Done():
			case <-t.Context().Done(): // the test has failed
			}
			return "", errors.New("stopped")
		}),
		cairn.Func("report", "Reports.", func(_ context.Context, call *cairn.Call, _ none) (string, error) {
			err := call.Emit("note", "a note")
			for n := 1; n <= 2 && err == nil; n++ {
				err = call.Emit("progress", map[string]int{"done": n}, cairn.EmitID("p"))
			}
			return "reported", err
		}),
		cairn.Func("pay", "Pays.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
			return fmt.Sprintf("paid %d", in.Cents), nil
		}, cairn.RequireApproval()),
	}
	gates := newGates(t)
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last := r.Messages[len(r.Messages)-1]
		said := last.Text()
		if last.Role == cairn.RoleTool {
			return scripted.Text("That is that.").Usage(7, 3)
		}
		for _, reply := range []struct {
			word string
			step scripted.Step
		}{
			{"where", scripted.Call("locate", none{})},
			{"fail", scripted.Reply(scripted.Text("Once upon a "), scripted.Fail(errors.New("overloaded")))},
			{"broken", scripted.Call("broken", none{})},
			{"cite", scripted.Reply(scripted.Text("Grass is green."), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd,
				Sources: []cairn.Source{{URL: "https://a.example/1", Title: "A page"}}}))},
			{"draw", scripted.Reply(scripted.Text("Here it is."), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile,
				File: &cairn.File{MediaType: "image/png", Data: []byte("a tree")}}))},
			{"report", scripted.Call("report", none{})},
			{"look", scripted.Call("look", none{})},
			{"hang", scripted.Call("hang", none{})},
			{"pay", scripted.Reply(scripted.Text("Let me pay. "), scripted.Call("pay", payment{100}))},
			{"slowly", scripted.Reply(scripted.Thinking("Hm."), scripted.Text("Once upon a time."), scripted.Gate(gates.of(said)), scripted.Text(" The end."))},
			{"long", scripted.Text("Once upon a").FinishReason(cairn.FinishReasonLength)},
		} {
			if strings.Contains(said, reply.word) {
				return reply.step.Usage(7, 3)
			}
		}
		return scripted.Text("Hello.").Usage(7, 3)
	})
	w := newWorldOf(t, &Options{RequestsPerMinute: -1},
		&cairn.Agent{Name: "bot", Model: model, Tools: tools, Retry: &cairn.RetryPolicy{Max: -1}})
	w.aside.HandleFunc("GET /release", gates.release)
	return w
}

// startBackend runs testdata/backend.mjs and returns its address.
func startBackend(t *testing.T) string {
	t.Helper()
	line := testenv.NodeCommand(t, "testdata/backend.mjs")
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _ = cmd.Wait(); problems.Len() > 0 { // the test's context has killed it
			t.Errorf("the backend fails: %s", &problems)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// A page shows the same with a Cairn server as with a backend of the AI SDK's own, live and after a reload, for each
// major version. Where it does not, the row says why.
func TestChatsMatchTheAISDK(t *testing.T) {
	reference := startBackend(t)
	for _, major := range []int{5, 6, 7} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			var rows []comparison
			var visits, theirs []visit
			for _, row := range comparisons {
				if row.majors == nil || slices.Contains(row.majors, major) {
					rows = append(rows, row)
					both := []visit{{row.name, row.todo}, {row.name, []string{"reload"}}}
					if visits = append(visits, both...); row.want == "" {
						theirs = append(theirs, both...)
					}
				}
			}
			ours := comparedWorld(t).browse(major, visits)
			other := browse(t, major, fmt.Sprint(reference, "/", major), theirs)
			for _, row := range rows {
				live, later := ours[0], ours[1]
				ours = ours[2:]
				if row.want != "" {
					want := strings.TrimPrefix(row.want, "\n")
					if got := live.rendered(row.usage); got != want {
						t.Errorf("%s: the page shows\n%s\nwant\n%s", row.name, got, want)
					}
					live.Posts, live.Errors = 0, nil
					if was, got := live.rendered(row.usage), later.rendered(row.usage); got != was {
						t.Errorf("%s: a page that is loaded later shows\n%s\nnot\n%s", row.name, got, was)
					}
					continue
				}
				for i, got := range []htmlPage{live, later} {
					want := other[i]
					if got, want := got.rendered(row.usage), want.rendered(row.usage); got != want {
						t.Errorf("%s: page %d shows\n%s\nwith the AI SDK\n%s", row.name, i+1, got, want)
					}
					differs := row.differs != "" && slices.Contains(row.in, major)
					if same := slices.Equal(got.Ends, want.Ends); !same && (!differs || i > 0) {
						t.Errorf("%s: page %d has the ends %q, with the AI SDK %q", row.name, i+1, got.Ends, want.Ends)
					} else if same && differs && i == 0 {
						t.Errorf("%s: there is no difference", row.name)
					}
				}
				other = other[2:]
			}
		})
	}
}

// The documentation has each row of the comparison.
func TestComparisonIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/SERVER.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range comparisons {
		fmt.Fprintf(&want, "| %s | %s |\n", row.name, cmp.Or(row.differs, "equal"))
	}
	if !strings.Contains(string(doc), want.String()) {
		t.Errorf("docs/SERVER.md does not list the comparison as\n%s", &want)
	}
}
