package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The test's program also acts as a server, so that tests have one to start and to kill.
func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST") {
	case "server":
		if err := bench(os.Getenv("MCP_TEST_DIR")).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "clerk":
		if err := clerkOverPipes(context.Background(), os.Getenv("MCP_TEST_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "digger":
		if err := diggerOverPipes(context.Background(), os.Getenv("MCP_TEST_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "task": // answers each call with a task
		if err := tasksOver(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "conformance":
		if err := runConformant(context.Background(), os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "slow":
		if err := slowServer(os.Getenv("MCP_TEST_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "noisy":
		if err := noisyServer(os.Getenv("MCP_TEST_DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "silent": // reads and never responds
		_, _ = os.Stdin.WriteTo(devNull{})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type devNull struct{}

func (devNull) Write(p []byte) (int, error) { return len(p), nil }

type none struct{}

type text struct {
	Text string `json:"text"`
}

// drawing is the beginning of an image.
const drawing = "\x89PNG\r\n\x1a\n"

// note appends a line to a file in a directory, so that a test can count a server's actions in any process.
func note(dir, file, line string) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err != nil {
		panic(err)
	}
	f.Close()
}

// notes returns the lines of such a file.
func notes(dir, file string) []string {
	raw, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(raw))
}

// bench is a server with one tool for each behavior that the tests need. Its instructions are in a file of the
// directory.
func bench(dir string) *sdk.Server {
	instructions, _ := os.ReadFile(filepath.Join(dir, "instructions"))
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, &sdk.ServerOptions{Instructions: string(instructions)})
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		note(dir, "echo", in.Text)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "you said " + in.Text}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "pid"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "look", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		note(dir, "look", in.Text)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "you see " + in.Text}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		os.Exit(1)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("out of paper")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		note(dir, "hang", "begun")
		<-ctx.Done()
		note(dir, "hang", "cancelled")
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "weather"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, map[string]int, error) {
		return nil, map[string]int{"degrees": 21}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "draw"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a drawing"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte(drawing)},
			&sdk.ResourceLink{URI: "file:///a", Name: "a"}, &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav!")},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "inside"}},
		}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "huge"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Bytes int `json:"bytes"`
	}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat("x", in.Bytes)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "deploy"}, func(_ context.Context, req *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		key, _ := req.Params.Meta[mcp.MetaIdempotencyKey].(string)
		if req.Params.RequestState == "" {
			note(dir, "prepared", key)
			return &sdk.CallToolResult{RequestState: "state of " + in.Text, InputRequests: sdk.InputRequestMap{
				"a-where": &sdk.ElicitParams{Mode: "form", Message: "Where to?", RequestedSchema: json.RawMessage(
					`{"type":"object","properties":{"region":{"type":"string","enum":["eu","us"]}},"required":["region"]}`)},
				"b-sign": &sdk.ElicitParams{Mode: "url", Message: "Sign here.", URL: "https://example.com/sign", ElicitationID: "e1"},
			}}, nil, nil
		}
		where, _ := req.Params.InputResponses["a-where"].(*sdk.ElicitResult)
		sign, _ := req.Params.InputResponses["b-sign"].(*sdk.ElicitResult)
		note(dir, "deployed", key)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("deployed with %q to %v, %s, %s",
			req.Params.RequestState, where.Content["region"], where.Action, sign.Action)}}}, nil, nil
	})
	return s
}

// command returns the server that this program runs.
func command(t *testing.T, what, dir string, opts mcp.Options) *mcp.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if opts.ListTimeout == 0 {
		opts.ListTimeout = testWait
	}
	opts.Env = append(opts.Env, "MCP_TEST="+what, "MCP_TEST_DIR="+dir)
	s, err := mcp.Command("bench", []string{self}, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// asks is a reply that calls a tool.
func asks(tool string, input any) scripted.Step { return scripted.Call(tool, input) }

// talk is a session with an agent that has toolsets.
type talk struct {
	*testing.T
	eng  *engine.Engine
	st   store.Store
	sent [][]cairn.ToolSpec // the tools of each request
	had  [][]cairn.Message  // messages of each request
	mu   sync.Mutex
	plan []scripted.Step
	user string // of the session
}

// newTalk begins a session whose model plays a script.
func newTalk(t *testing.T, toolsets []cairn.Toolset, steps ...scripted.Step) *talk {
	return newTalkIn(t, memstore.New(nil), toolsets, steps...)
}

func newTalkIn(t *testing.T, st store.Store, toolsets []cairn.Toolset, steps ...scripted.Step) *talk {
	t.Helper()
	k := &talk{T: t, st: st, plan: steps}
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.sent, k.had = append(k.sent, req.Tools), append(k.had, req.Messages)
		if len(k.plan) == 0 {
			return scripted.Text("done")
		}
		next := k.plan[0]
		k.plan = k.plan[1:]
		return next
	})
	eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: model, Toolsets: toolsets, DeferAbove: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	k.eng = eng
	return k
}

// turn runs a turn and returns its result.
func (k *talk) turn(text string) *cairn.Result {
	k.Helper()
	var opts []engine.RunOption
	if k.user != "" {
		opts = append(opts, engine.WithUser(k.user))
	}
	run, err := k.eng.Execute(k.Context(), "s", "bot", cairn.Text(text), opts...)
	return k.outcome(run, err)
}

// script sets the model's next replies.
func (k *talk) script(steps ...scripted.Step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plan = steps
}

// offers returns the tools of the last request.
func (k *talk) offers() []cairn.ToolSpec {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent[len(k.sent)-1]
}

// everything returns the transcript and the event log as text.
func (k *talk) everything() string {
	k.Helper()
	all, err := driver.Messages(k.Context(), k.st, "s", 0, 1000)
	if err != nil {
		k.Fatal(err)
	}
	events, err := k.eng.History(k.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		k.Fatal(err)
	}
	raw, err := json.Marshal([]any{all, events})
	if err != nil {
		k.Fatal(err)
	}
	return string(raw)
}

func (k *talk) outcome(run *engine.Run, err error) *cairn.Result {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
	defer cancel()
	res, err := run.Wait(ctx)
	if err != nil {
		k.Fatal(err)
	}
	return res
}

// answer answers the open call, and resumes the run.
func (k *talk) answer(call cairn.CallRef, value any) *cairn.Result {
	k.Helper()
	s := cairn.Answer(call, value)
	if call.Kind == cairn.CallApproval {
		s = cairn.Approve(call)
	}
	if _, err := k.eng.Submit(k.Context(), "s", s); err != nil {
		k.Fatal(err)
	}
	return k.outcome(k.eng.Resume(k.Context(), "s"))
}

// results returns the results of tool calls, in order.
func (k *talk) results() (list []cairn.ToolResult) {
	k.Helper()
	all, err := driver.Messages(k.Context(), k.st, "s", 0, 1000)
	if err != nil {
		k.Fatal(err)
	}
	for i := range all {
		for _, r := range all[i].ToolResults() {
			list = append(list, *r)
		}
	}
	return list
}

// last returns the last result as text.
func (k *talk) last() string {
	k.Helper()
	list := k.results()
	if len(list) == 0 {
		k.Fatal("no tool was called")
	}
	return string(list[len(list)-1].Output)
}

// offered returns the names of the tools of the n-th request.
func (k *talk) offered(n int) string {
	k.Helper()
	var names []string
	for _, t := range k.sent[n] {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func asError(err error, e **cairn.Error) bool { return errors.As(err, e) }

// testWait is how long a turn waits for a server whose program starts slowly on a busy machine.
const testWait = time.Minute
