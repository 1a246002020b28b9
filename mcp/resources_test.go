package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/mcp"
)

// archive is a server with resources and prompts.
func archive() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "archive", Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	for _, name := range []string{"a", "b", "c"} {
		s.AddResource(&sdk.Resource{URI: "file:///" + name, Name: name, MIMEType: "text/plain", Description: "File " + name, Size: 4}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: "text " + name}, {URI: req.Params.URI, MIMEType: "image/png", Blob: []byte(drawing)}}}, nil
		})
	}
	s.AddPrompt(&sdk.Prompt{Name: "review", Title: "Review", Description: "Reviews code.", Arguments: []*sdk.PromptArgument{{Name: "code", Description: "The code.", Required: true}}},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Review " + req.Params.Arguments["code"] + "\x00"}},
				{Role: "assistant", Content: &sdk.TextContent{Text: "Gladly."}},
				{Role: "user", Content: &sdk.ImageContent{MIMEType: "image/png", Data: []byte(drawing)}},
				{Role: "user", Content: &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "inside"}}},
				{Role: "user", Content: &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav!")}},
			}}, nil
		})
	return s
}

func TestResources(t *testing.T) {
	t.Parallel()
	s := served(t, archive(), mcp.Options{})
	var uris []string
	for r, err := range s.Resources(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if r.MIMEType != "text/plain" || r.Description != "File "+r.Name || r.Size != 4 {
			t.Errorf("the resource is %+v", r)
		}
		uris = append(uris, r.URI)
	}
	if got := strings.Join(uris, " "); got != "file:///a file:///b file:///c" {
		t.Errorf("the server offers %s", got)
	}
	for range s.Resources(t.Context(), "") { // a reader may stop
		break
	}
	got, err := s.ReadResource(t.Context(), "", "file:///b")
	want := []mcp.Contents{{URI: "file:///b", MIMEType: "text/plain", Text: "text b"}, {URI: "file:///b", MIMEType: "image/png", Data: []byte(drawing)}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the resource is %+v, %v", got, err)
	}
	if _, err := s.ReadResource(t.Context(), "", "file:///nothing"); !errors.Is(err, cairn.ErrNotFound) || !strings.Contains(err.Error(), "file:///nothing") {
		t.Errorf("a resource that does not exist: %v", err)
	}
	s.Close()
	if _, err := s.ReadResource(t.Context(), "", "file:///a"); !errors.Is(err, cairn.ErrClosed) {
		t.Errorf("a closed server: %v", err)
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	s := served(t, archive(), mcp.Options{})
	for p, err := range s.Prompts(t.Context(), "") {
		if want := (&mcp.Prompt{Name: "review", Title: "Review", Description: "Reviews code.", Arguments: []mcp.PromptArgument{{Name: "code", Description: "The code.", Required: true}}}); err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("the prompt is %+v, %v", p, err)
		}
	}
	list, err := s.Prompt(t.Context(), "", "review", map[string]string{"code": "x++"})
	if err != nil || len(list) != 5 {
		t.Fatalf("the prompt is %+v, %v", list, err)
	}
	for i, want := range []string{"Review x++\uFFFD", "Gladly.", "", "inside", `{"type":"audio","media_type":"audio/wav","note":"left out: not an image or a PDF"}`} {
		role := cairn.RoleUser
		if i == 1 {
			role = cairn.RoleAssistant
		}
		if err := list[i].Validate(); err != nil || list[i].Text() != want || list[i].Role != role {
			t.Errorf("message %d is %+v, %v", i, list[i], err)
		}
	}
	if f := list[2].Parts[0].File; f == nil || f.MediaType != "image/png" || string(f.Data) != drawing {
		t.Errorf("the image is %+v", list[2])
	}
	if _, err := s.Prompt(t.Context(), "", "nothing", nil); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a prompt that does not exist: %v", err)
	}
}

// A server without resources and prompts is not asked for them.
func TestNoResources(t *testing.T) {
	t.Parallel()
	s := command(t, "server", t.TempDir(), mcp.Options{})
	for r, err := range s.Resources(t.Context(), "") {
		t.Errorf("the server offers %+v, %v", r, err)
	}
	for p, err := range s.Prompts(t.Context(), "") {
		t.Errorf("the server offers %+v, %v", p, err)
	}
	if _, err := s.ReadResource(t.Context(), "", "file:///a"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a resource: %v", err)
	}
}

// A user without an account gets an error, and one with an account has their own resources.
func TestResourcesOfAUser(t *testing.T) {
	t.Parallel()
	b := newBank(t, archive())
	s := newCustomer(t, b)
	for r, err := range s.server.Resources(t.Context(), "eve") {
		if !errors.Is(err, mcp.ErrNotConnected) {
			t.Errorf("another user gets %+v, %v", r, err)
		}
	}
	n := 0
	for _, err := range s.server.Resources(t.Context(), "ada") {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Errorf("the user has %d resources", n)
	}
}

// The progress of a call is on the session's stream while the call runs, and with its result.
func TestProgress(t *testing.T) {
	t.Parallel()
	next := make(chan bool)
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "dig"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		report := func(done float64, message string) {
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: done, Total: 10, Message: message}); err != nil {
				t.Error(err)
			}
		}
		report(1, "first")
		<-next
		report(1, "not further")
		report(0.5, "back")
		report(4, "second")
		<-next
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "dug"}}}, nil, nil
	})
	k := newTalk(t, []cairn.Toolset{served(t, s, mcp.Options{})}, asks("bench_dig", none{}))
	run, err := k.eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	var id string
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type != cairn.EventCustom || ev.Name != mcp.ProgressEvent {
			continue
		}
		var p mcp.Progress
		if err := json.Unmarshal(ev.Data, &p); err != nil || p.Server != "bench" || p.Tool != "bench_dig" || p.CallID == "" || p.Total != 10 {
			t.Errorf("the progress is %s, %v", ev.Data, err)
		}
		if id == "" {
			id = ev.DataID
		}
		if ev.DataID != id || id == "" {
			t.Errorf("the events have the ids %q and %q", id, ev.DataID)
		}
		seen = append(seen, fmt.Sprint(p.Done, " ", p.Message))
		next <- true
	}
	if got := strings.Join(seen, ", "); got != "1 first, 4 second" {
		t.Errorf("the progress was %s", got)
	}
	r := k.results()
	if len(r) != 1 || string(r[0].Output) != `"dug"` || len(r[0].Data) != 1 || !strings.Contains(string(r[0].Data[0].Value), "second") {
		t.Errorf("the result is %+v", r)
	}
}
