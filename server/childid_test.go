package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/model/scripted"
)

// newFamily is a server with alice's session "s", whose sub-agent waits for an approval. It returns the child's id and
// the call's.
func newFamily(t *testing.T) (w *world, child string, call cairn.PendingCall) {
	t.Helper()
	helper := newBot()
	helper.Name, helper.Description = "helper", "Pays."
	w = newWorldOf(t, &Options{RequestsPerMinute: -1}, &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(helper)},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			if r.Messages[len(r.Messages)-1].Role == cairn.RoleUser {
				return scripted.Call("helper", map[string]any{"input": "pay the helper's bill"})
			}
			return scripted.Text("of the root")
		})})
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "for the root"}}})
	w.settled("s")
	calls := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls
	if len(calls) != 1 {
		t.Fatalf("open calls %+v", calls)
	}
	return w, calls[0].SessionID, calls[0]
}

// aboutChild is what a route does if it is given the session of a sub-agent.
type aboutChild struct {
	status int
	has    string // in the response
	body   any
	token  string // empty means alice's
}

// aboutChildren are the routes that name a session.
func aboutChildren(child string, call cairn.PendingCall, checkpoint string) map[string]aboutChild {
	answer := map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
	post := map[string]any{"id": child, "messages": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}}
	stop := map[string]any{"reason": "enough"}
	own := `"id":"` + child + `"`
	return map[string]aboutChild{
		"POST /start":                                        {status: 400, has: `"field":"session_id"`, body: map[string]any{"input": client.UserMessage{Text: "hi"}}},
		"POST /resume":                                       {status: 400, has: `"field":"session_id"`, body: map[string]any{"checkpoint_id": checkpoint}},
		"POST /retry":                                        {status: 400, has: `"field":"session_id"`, body: map[string]any{}},
		"GET /status":                                        {status: 200, has: own},
		"POST /interrupt":                                    {status: 200, has: own, body: stop},
		"POST /abort":                                        {status: 200, has: own, body: stop},
		"POST /submit-tool-result":                           {status: 200, has: `"accepted"`, body: answer},
		"POST /chat":                                         {status: 400, has: `"field":"session_id"`, body: post},
		"GET /chat/{id}":                                     {status: 200, has: "pay the helper's bill"},
		"PATCH /chat/{id}":                                   {status: 400, has: `"field":"session_id"`, body: map[string]any{"archived": true}},
		"DELETE /chat/{id}":                                  {status: 400, has: `"field":"session_id"`},
		"GET /chat/{id}/branches":                            {status: 200, has: `"items":[]`},
		"GET /chat/{id}/stream":                              {status: 204},
		"POST /chat/{id}/interrupt":                          {status: 200, has: own, body: stop},
		"POST /chat/{id}/abort":                              {status: 200, has: own, body: stop},
		"GET /sessions/{id}":                                 {status: 200, has: own},
		"PATCH /sessions/{id}":                               {status: 200, has: own, body: map[string]any{"title": "of the child"}},
		"DELETE /sessions/{id}":                              {status: 400, has: `"field":"session_id"`},
		"POST /sessions/{id}/restore":                        {status: 400, has: `"field":"session"`},
		"POST /sessions/{id}/advance":                        {status: 400, has: `"field":"session_id"`},
		"GET /sessions/{id}/usage":                           {status: 200, has: `"session":{`},
		"GET /sessions/{id}/snapshot":                        {status: 200, has: own},
		"PUT /sessions/{id}/state":                           {status: 200, has: own, body: map[string]any{"state": map[string]any{"n": 1}}, token: "x"},
		"GET /sessions/{id}/messages":                        {status: 200, has: "pay the helper's bill"},
		"GET /sessions/{id}/turns":                           {status: 200, has: `"index":0`},
		"GET /sessions/{id}/runs":                            {status: 200, has: `"session_id":"` + child + `"`},
		"GET /sessions/{id}/queue":                           {status: 200, has: `"items":[]`},
		"POST /sessions/{id}/branch":                         {status: 201, has: `"agent":"helper"`, body: map[string]any{}},
		"POST /sessions/{id}/fork":                           {status: 201, has: `"agent":"helper"`, body: map[string]any{"messages": 1}},
		"POST /sessions/{id}/clear-taint":                    {status: 204, body: map[string]any{"notes": "harmless"}, token: "x"},
		"POST /sessions/{id}/rewind":                         {status: 200, has: own, body: map[string]any{"checkpoint_id": checkpoint}},
		"GET /inbox/{root}/{call}":                           {status: 200, has: call.ID},
		"POST /inbox/{root}/{call}/claim":                    {status: 200, has: call.ID, body: map[string]any{}},
		"POST /sessions/{id}/scores":                         {status: 200, has: `"session_id":"` + child + `"`, body: map[string]any{"value": 1}},
		"GET /sessions/{id}/scores":                          {status: 200, has: `"items":[`},
		"GET /usage":                                         {status: 200, has: `"items":[{`},
		"GET /effects":                                       {status: 200, has: `"items":[]`},
		"POST /effects/{root}/{call}/settle":                 {status: 400, has: "is not an effect", body: map[string]any{}},
		"GET /memory/entries":                                {status: 200, has: `"items":[]`},
		"POST /memory/entries":                               {status: 201, has: "a tree", body: map[string]any{"text": "a tree"}},
		"DELETE /memory/entries":                             {status: 204},
		"GET /memory/entries/{entry}":                        {status: 404, has: "memory"},
		"DELETE /memory/entries/{entry}":                     {status: 200, has: `"removed":0`},
		"POST /memory/entries/{entry}/correct":               {status: 404, has: "memory", body: map[string]any{"text": "a bush"}},
		"POST /memory/entries/{entry}/redact":                {status: 404, has: "memory", body: map[string]any{}},
		"POST /memory/entries/{entry}/promote":               {status: 404, has: "memory", body: map[string]any{}, token: "x"},
		"GET /memory/search":                                 {status: 400, has: `"field":"text"`},
		"GET /memory/entities":                               {status: 200, has: "Ann"},
		"GET /memory/sources":                                {status: 200, has: "application"},
		"GET /sessions/{id}/checkpoints":                     {status: 200, has: `"session_id":"` + child + `"`},
		"GET /sessions/{id}/checkpoints/{checkpoint}":        {status: 200, has: `"session_id":"` + child + `"`},
		"GET /sessions/{id}/artifacts":                       {status: 200, has: `"items":[]`},
		"GET /sessions/{id}/workspace":                       {status: 200, has: `"path":"note.txt"`},
		"GET /sessions/{id}/workspace/file":                  {status: 404, has: `"field":"path"`},
		"GET /sessions/{id}/workspace/snapshots":             {status: 200, has: `"items":[]`},
		"POST /sessions/{id}/workspace/restore":              {status: 409, has: `"code":"waiting"`, body: map[string]any{"snapshot": "x"}},
		"GET /sessions/{id}/export":                          {status: 200, has: own},
		"GET /sessions/{id}/decisions":                       {status: 200, has: `"items":[]`},
		"GET /sessions/{id}/stream":                          {status: 200, has: `"ended":true`},
		"POST /sessions/{id}/events":                         {status: 204, body: map[string]any{"name": "x"}, token: "x"},
		"POST /sessions/{id}/checkpoints":                    {status: 201, has: `"session_id":"` + child + `"`},
		"DELETE /sessions/{id}/queue/{run}":                  {status: 404, has: `"field":"run"`},
		"POST /inbox/{root}/{call}/release":                  {status: 400, has: `"code":"invalid_argument"`, body: map[string]any{}}, // it is not claimed
		"POST /chat/{id}/submit-tool-result":                 {status: 200, has: `"accepted"`, body: answer},
		"GET /sessions/{id}/messages/{message}/request":      {status: 400, has: `message 0 is not a reply`, token: "x"},
		"GET /sessions/{id}/messages/{message}/files/{file}": {status: 404, has: `"field":"file"`},
	}
}

// Each route shows and changes the session that it is given, also if that is a sub-agent's, or refuses it.
func TestRoutesSpeakOfTheSessionTheyAreGiven(t *testing.T) {
	elsewhere := map[string]bool{"GET /sse": true, "GET /inbox": true, "GET /sessions": true, "POST /sessions": true, "GET /agents": true, "GET /usage": true, "GET /budgets": true,
		"GET /session-counts": true, "POST /console/session": true, "GET /console/session": true, "DELETE /console/session": true, "GET /operations": true} // see the tests below
	for _, rt := range routes() {
		route := rt.Method + " " + rt.Path
		if rt.anonymous || elsewhere[route] {
			continue
		}
		t.Run(route, func(t *testing.T) {
			w, child, call := newFamily(t)
			cp := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/"+child+"/checkpoints", nil)
			c, ok := aboutChildren(child, call, cp.Items[0].ID)[route]
			if !ok {
				t.Fatal("the route has no row")
			}
			before, err := w.eng.Session(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			path := strings.NewReplacer("{run}", "x", "{checkpoint}", cp.Items[0].ID, "{message}", "0", "{file}", "0", "{id}", child, "{root}", child, "{call}", call.ID).Replace(rt.Path)
			if path == rt.Path && path != "/chat" {
				path += "?session_id=" + child
			}
			if res, _ := w.do("e", rt.Method, path, c.body); res.StatusCode != missing(rt) {
				t.Errorf("for another user: %d", res.StatusCode)
			}
			res, data := w.do(cmp.Or(c.token, "a"), rt.Method, path, c.body)
			if res.StatusCode != c.status || !strings.Contains(string(data), c.has) || strings.Contains(string(data), "for the root") {
				t.Errorf("%d %s, want %d with %s", res.StatusCode, data, c.status, c.has)
			}
			after, err := w.eng.Session(t.Context(), "s")
			if err != nil || after.Title != before.Title || after.MessageCount != before.MessageCount || after.Epoch != before.Epoch || after.CheckpointID != before.CheckpointID || after.State != before.State {
				t.Errorf("the root has changed: %+v, %v", after, err)
			}
		})
	}
}

// The stream of a sub-agent's session has its own events only.
func TestStreamOfAChild(t *testing.T) {
	w, child, _ := newFamily(t)
	_, lines := w.stream("a", "/sse?session_id="+child, "")
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var ev cairn.Event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.SessionID != child {
			t.Errorf("event %d is of session %s", ev.Sequence, ev.SessionID)
		}
		if ev.Type == cairn.EventRunEnd {
			return
		}
	}
	t.Error("the stream has no end of the run")
}

// The children of a session are listed for those who may read its root.
func TestChildrenAreListed(t *testing.T) {
	w, child, call := newFamily(t)
	for _, token := range []string{"a", "x"} {
		page := want[pageBody[cairn.Session]](w, 200, token, "GET", "/sessions?parent_id=s", nil)
		if len(page.Items) != 1 || page.Items[0].ID != child || page.Items[0].ParentID != "s" || page.Items[0].RootID != "s" {
			t.Errorf("the children of s for %s: %+v", token, page.Items)
		}
		if page := want[pageBody[cairn.Session]](w, 200, token, "GET", "/sessions?parent_id="+child, nil); len(page.Items) != 0 {
			t.Errorf("the children of the child for %s: %+v", token, page.Items)
		}
	}
	if page := want[pageBody[cairn.Session]](w, 200, "a", "GET", "/sessions", nil); len(page.Items) != 1 || page.Items[0].ID != "s" {
		t.Errorf("the sessions are %+v", page.Items)
	}
	for _, parent := range []string{"s", child, "none"} {
		want[problemBody](w, 404, "e", "GET", "/sessions?parent_id="+url.QueryEscape(parent), nil)
	}
	for session, n := range map[string]int{"s": 1, child: 1, "none": 0} {
		if page := want[pageBody[cairn.PendingCall]](w, 200, "r", "GET", "/inbox?session_id="+session, nil); len(page.Items) != n || n > 0 && page.Items[0].ID != call.ID {
			t.Errorf("the inbox of %s: %+v", session, page.Items)
		}
	}
}
