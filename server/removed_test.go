package server

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A session that was deleted is only in the list of removed sessions, and its user can restore it. Other users can
// neither see nor restore it.
func TestRestore(t *testing.T) {
	w := newWorld(t, nil)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	if p := want[problemBody](w, 409, "a", "POST", "/sessions/s/restore", nil); p.Code != "already_exists" {
		t.Errorf("of one that is there: %+v", p)
	}
	want[none](w, 204, "a", "DELETE", "/sessions/s", nil)
	want[problemBody](w, 404, "a", "GET", "/sessions/s", nil)
	gone := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?removed=deleted&removed=expired", nil)
	if len(gone.Items) != 1 || gone.Items[0].ID != "s" || gone.Items[0].Removal != "deleted" {
		t.Errorf("the list is %+v", gone)
	}
	if list := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions?removed=expired", nil); len(list.Items) != 0 {
		t.Errorf("expired are %+v", list)
	}
	if list := want[pageBody[cairn.Session]](w, 200, "e", "GET", "/sessions?removed=deleted", nil); len(list.Items) != 0 {
		t.Errorf("another user sees %+v", list)
	}
	for path, status := range map[string]int{"/sessions/s/restore": 404, "/sessions/t/restore": 404} {
		want[problemBody](w, status, "e", "POST", path, nil)
	}
	if row := want[cairn.Session](w, 200, "a", "POST", "/sessions/s/restore", nil); row.ID != "s" || row.Turn != 1 {
		t.Errorf("restored is %+v", row)
	}
	want[cairn.Session](w, 200, "a", "GET", "/sessions/s", nil)
	want[problemBody](w, 400, "a", "GET", "/sessions?removed=purged", nil)
}

// The tool cache of a session is shown on demand, and so is its usage. A session gets checkpoints between turns.
func TestSessionDetails(t *testing.T) {
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "seen", nil }, cairn.Cache(cairn.CachePolicy{}))
	w := newWorldOf(t, nil, &cairn.Agent{Name: "bot", Tools: []cairn.Tool{look}, Model: scripted.New(scripted.Call("look", struct{}{}), scripted.Text("so"))})
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
	w.settled("s")
	if v := want[sessionViewBody](w, 200, "a", "GET", "/sessions/s", nil); len(v.ToolCache) != 0 || v.ID != "s" {
		t.Errorf("unasked: %+v", v)
	}
	if v := want[sessionViewBody](w, 200, "a", "GET", "/sessions/s?include=cache", nil); len(v.ToolCache) != 1 || v.ToolCache[0].Tool != "look" {
		t.Errorf("the cache is %+v", v.ToolCache)
	}
	want[problemBody](w, 400, "a", "GET", "/sessions/s?include=all", nil)
	if u := want[sessionUsageBody](w, 200, "a", "GET", "/sessions/s/usage", nil); u.Session.ToolCalls != 1 || u.Tree.ToolCalls != 1 {
		t.Errorf("it used %+v", u)
	}
	before := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/s/checkpoints", nil)
	mark := want[cairn.Checkpoint](w, 201, "a", "POST", "/sessions/s/checkpoints", nil)
	after := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/s/checkpoints?newest=true", nil)
	if len(after.Items) != len(before.Items)+1 || after.Items[0].ID != mark.ID {
		t.Errorf("the checkpoints are %+v", after)
	}
}
