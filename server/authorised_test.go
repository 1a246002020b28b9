package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

// request builds a request for a route about a session and a call, from the type that the route reads.
func (w *world) request(rt route, session, call string) (path string, body any) {
	w.t.Helper()
	path = strings.NewReplacer("{run}", "x", "{message}", "0", "{file}", "0", "{id}", session, "{root}", session, "{call}", call).Replace(rt.Path)
	for f := range fields(rt.In) {
		if f.Tag.Get("query") == "session_id" {
			path += "?session_id=" + session
		}
	}
	if rt.Method != "POST" && rt.Method != "PUT" || rt.signsIn {
		return path, nil
	}
	approval := map[string]any{"type": "approval-response", "call_id": call, "approval_id": "x", "approved": true}
	bodies := map[string]any{
		"/chat": map[string]any{"id": session, "assistant": "bot", "messages": []any{
			map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}},
		"/start":                        map[string]any{"agent": "bot", "input": client.UserMessage{Text: "hi"}},
		"/submit-tool-result":           approval,
		"/chat/{id}/submit-tool-result": approval,
		"/sessions":                     map[string]any{"agent": "bot"},
		"/sessions/{id}/clear-taint":    map[string]any{"notes": "harmless"},
		"/sessions/{id}/rewind":         map[string]any{"checkpoint_id": "x"},
		"/sessions/{id}/state":          map[string]any{"state": map[string]any{}},
	}
	if body = bodies[rt.Path]; body == nil {
		body = map[string]any{}
	}
	return path, body
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !yield(f) {
				return
			}
		}
	}
}

// missing returns the status of a route for a session that is not there. A page resumes a chat that has yet to begin.
func missing(rt route) int {
	if rt.Path == "/chat/{id}/stream" {
		return 204
	}
	return 404
}

// No route answers without credentials, and none shows or changes another user's session. The response is the same
// as for a session that never existed.
func TestEveryRouteIsAuthorised(t *testing.T) {
	w := newWorld(t, &Options{RequestsPerMinute: -1})
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}})
	before := w.settled("s")
	calls, err := w.eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
	if err != nil || len(calls.Items) != 1 {
		t.Fatalf("got %+v, %v", calls, err)
	}
	call := calls.Items[0].ID
	want[cairn.Session](w, 201, "e", "POST", "/sessions", createIn{Create: wire.Create{SessionID: "of-eve", Agent: "bot"}})
	for _, rt := range routes() {
		if rt.anonymous {
			continue
		}
		name := rt.Method + " " + rt.Path
		if own, body := w.request(rt, "of-eve", call); strings.Contains(own, call) || strings.Contains(fmt.Sprint(body), call) || strings.HasSuffix(rt.Path, "/submit-tool-result") {
			if res, data := w.do("e", rt.Method, own, body); res.StatusCode != 404 {
				t.Errorf("%s for another user's call: status %d: %s", name, res.StatusCode, data)
			}
		}
		path, body := w.request(rt, "s", call)
		for _, token := range []string{"", "wrong", "aa"} {
			if res, _ := w.do(token, rt.Method, path, body); res.StatusCode != 401 {
				t.Errorf("%s with token %q: status %d", name, token, res.StatusCode)
			}
		}
		if rt.Out == nil {
			// The stream must not even begin.
			if res, _ := w.do("e", rt.Method, path, body); res.StatusCode != missing(rt) {
				t.Errorf("%s for another user: status %d", name, res.StatusCode)
			}
			continue
		}
		res, data := w.do("e", rt.Method, path, body)
		if !strings.Contains(path, "s/") && !strings.Contains(path, "/s") && !strings.Contains(path, "=s") ||
			rt.Path == "/sessions" || rt.Path == "/session-counts" || strings.HasPrefix(rt.Path, "/console/") {
			if bytes.Contains(data, []byte("alice")) || bytes.Contains(data, []byte(`"s"`)) {
				t.Errorf("%s shows another user's: %s", name, data)
			}
			continue
		}
		if rt.Path == "/inbox" {
			if res.StatusCode != 200 || bytes.Contains(data, []byte(call)) {
				t.Errorf("%s shows another user's: %d %s", name, res.StatusCode, data)
			}
			continue
		}
		if res.StatusCode != 404 {
			t.Errorf("%s for another user: status %d: %s", name, res.StatusCode, data)
		}
		if rt.Path == "/start" {
			continue
		}
		absent, body := w.request(rt, "t", call)
		res2, data2 := w.do("e", rt.Method, absent, body)
		var one, two problemBody
		if json.Unmarshal(data, &one) != nil || json.Unmarshal(data2, &two) != nil {
			t.Errorf("%s: %s, %s are no problems", name, data, data2)
		}
		one.RequestID, two.RequestID = "", ""
		if one.Detail = strings.ReplaceAll(one.Detail, `"s"`, `"t"`); res2.StatusCode != 404 || !reflect.DeepEqual(one, two) {
			t.Errorf("%s tells a session that is another's from one that never was: %+v, %+v", name, one, two)
		}
	}
	if after := w.settled("s"); after.Version != before.Version {
		t.Errorf("the session changed: %+v", after)
	}
}
