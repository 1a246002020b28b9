package mcp_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
)

// The model's last message is the user's, whatever servers offer, and each request begins with all of the one before.
func TestNotesPrecedeTheUser(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	add := func(name string) {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + name}}}, nil, nil
		})
	}
	add("one")
	tools := served(t, s, mcp.Options{})
	k := newTalk(t, []cairn.Toolset{tools}, asks("bench_one", none{}), scripted.Text("first"), scripted.Text("second"), scripted.Text("third"))
	k.turn("question 1")
	add("two")
	testclock.Await(t, "the new list", func() bool {
		offer, err := tools.Offer(t.Context(), define.NewStep(cairn.Step{}, nil), nil)
		return err == nil && offer != nil && strings.Contains(string(offer.Pinned), "two")
	})
	k.turn("question 2")
	k.turn("question 3")
	for i, want := range []string{"question 1", "", "question 2", "question 3"} {
		list := k.had[i]
		if last := list[len(list)-1]; want != "" && last.Text() != want {
			t.Errorf("request %d ends with %q", i, last.Text())
		}
		if i == 0 {
			continue
		}
		before := k.had[i-1]
		if len(list) <= len(before) || !slices.EqualFunc(before, list[:len(before)], func(a, b cairn.Message) bool {
			x, _ := json.Marshal(a.Parts)
			y, _ := json.Marshal(b.Parts)
			return string(x) == string(y)
		}) {
			t.Errorf("request %d does not begin with all of the one before: %+v after %+v", i, list, before)
		}
	}
	if text := k.everything(); !strings.Contains(text, "have changed") {
		t.Error("the list did not change")
	}
}
