package server

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// access is who may do what with the session of another user, the owner, under [OwnSessions]. The session has an open
// approval, which names no reviewers.
//
//	401   refused without credentials
//	yes   permitted
//	part  permitted, but shows only what precedes the open call
//	own   permitted, but shows or makes only what is the principal's own
//	no    refused as if there were no such session: 404
//	400   refused with the reason: only administrators may
const access = `
                                                        none  owner  other  reviewer  operator  admin
POST   /start                                           401   yes    no     no        no        yes
POST   /resume                                          401   yes    no     no        no        yes
POST   /retry                                           401   yes    no     no        no        yes
GET    /status                                          401   yes    no     part      yes       yes
POST   /interrupt                                       401   yes    no     no        no        yes
POST   /abort                                           401   yes    no     no        no        yes
POST   /submit-tool-result                              401   yes    no     yes       no        yes
GET    /sse                                             401   yes    no     no        yes       yes
POST   /chat                                            401   yes    no     no        no        yes
GET    /chat/{id}                                       401   yes    no     part      yes       yes
PATCH  /chat/{id}                                       401   yes    no     no        no        yes
DELETE /chat/{id}                                       401   yes    no     no        no        yes
GET    /chat/{id}/branches                              401   yes    no     no        yes       yes
GET    /chat/{id}/stream                                401   yes    no     no        yes       yes
POST   /chat/{id}/submit-tool-result                    401   yes    no     yes       no        yes
POST   /chat/{id}/interrupt                             401   yes    no     no        no        yes
POST   /chat/{id}/abort                                 401   yes    no     no        no        yes
POST   /sessions                                        401   own    own    no        no        own
GET    /sessions                                        401   yes    own    own       yes       yes
GET    /sessions/{id}                                   401   yes    no     part      yes       yes
PATCH  /sessions/{id}                                   401   yes    no     no        no        yes
DELETE /sessions/{id}                                   401   yes    no     no        no        yes
POST   /sessions/{id}/restore                           401   yes    no     no        no        yes
GET    /sessions/{id}/usage                             401   yes    no     no        yes       yes
GET    /sessions/{id}/snapshot                          401   yes    no     no        yes       yes
PUT    /sessions/{id}/state                             401   400    no     no        no        yes
GET    /sessions/{id}/messages                          401   yes    no     part      yes       yes
GET    /sessions/{id}/messages/{message}/request        401   400    no     no        yes       yes
GET    /sessions/{id}/messages/{message}/files/{file}   401   yes    no     part      yes       yes
GET    /sessions/{id}/runs                              401   yes    no     no        yes       yes
GET    /sessions/{id}/checkpoints                       401   yes    no     no        yes       yes
POST   /sessions/{id}/checkpoints                       401   yes    no     no        no        yes
GET    /sessions/{id}/checkpoints/{checkpoint}          401   yes    no     no        yes       yes
GET    /sessions/{id}/decisions                         401   yes    no     no        yes       yes
GET    /sessions/{id}/stream                            401   yes    no     no        yes       yes
POST   /sessions/{id}/events                            401   400    no     no        no        yes
GET    /sessions/{id}/queue                             401   yes    no     no        yes       yes
DELETE /sessions/{id}/queue/{run}                       401   yes    no     no        no        yes
POST   /sessions/{id}/branch                            401   yes    no     no        no        yes
POST   /sessions/{id}/rewind                            401   yes    no     no        no        yes
GET    /agents                                          401   yes    yes    yes       yes       yes
GET    /inbox                                           401   yes    own    yes       yes       yes
GET    /inbox/{root}/{call}                             401   yes    no     yes       yes       yes
POST   /inbox/{root}/{call}/claim                       401   yes    no     yes       no        yes
POST   /inbox/{root}/{call}/release                     401   yes    no     yes       no        yes
GET    /openapi.json                                    yes   yes    yes    yes       yes       yes
GET    /healthz                                         yes   yes    yes    yes       yes       yes
GET    /readyz                                          yes   yes    yes    yes       yes       yes
`

// accessRows returns the rows of the table by route, and the tokens of its columns.
func accessRows(t *testing.T) (rows map[string][]string, tokens []string) {
	t.Helper()
	of := map[string]string{"none": "", "owner": "a", "other": "e", "reviewer": "r", "operator": "o", "admin": "x"}
	lines := strings.Split(strings.TrimSpace(access), "\n")
	for _, name := range strings.Fields(lines[0]) {
		token, known := of[name]
		if !known {
			t.Fatalf("there is no principal %q", name)
		}
		tokens = append(tokens, token)
	}
	rows = map[string][]string{}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != 2+len(tokens) {
			t.Fatalf("row %q has %d cells, want %d", line, len(f)-2, len(tokens))
		}
		rows[f[0]+" "+f[1]] = f[2:]
	}
	return rows, tokens
}

// Every route serves each kind of principal as the table says, and no other route exists.
func TestAccess(t *testing.T) {
	rows, tokens := accessRows(t)
	for _, rt := range routes() {
		name := rt.Method + " " + rt.Path
		cells, ok := rows[name]
		if !ok {
			t.Errorf("the table has no row for %s", name)
			continue
		}
		delete(rows, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newWorld(t, &Options{RequestsPerMinute: -1})
			inShared := shared.waiting(rt)
			before, _ := shared.eng.Session(t.Context(), "s")
			for i, want := range cells {
				w, do := shared, inShared
				if changes := rt.Method != http.MethodGet && want == "yes"; changes {
					w = newWorld(t, &Options{RequestsPerMinute: -1})
					do = w.waiting(rt)
				}
				res, data := do(tokens[i])
				got := w.cell(want, res.StatusCode, data)
				if want == "no" && res.StatusCode == missing(rt) { // as for a session that is not there
					got = "no"
				}
				if got != want {
					t.Errorf("with token %q: status %d: %s: %s, want %s", tokens[i], res.StatusCode, data, got, want)
				}
			}
			if after, _ := shared.eng.Session(t.Context(), "s"); before != nil && (after == nil || after.Version != before.Version) {
				t.Errorf("a request that was refused, or only reads, has changed the session: %+v", after)
			}
		})
	}
	for name := range rows {
		t.Errorf("the table has a row for %s, which is no route", name)
	}
}

// cell returns what the table calls a response.
func (w *world) cell(want string, status int, data []byte) string {
	w.t.Helper()
	switch {
	case status == http.StatusUnauthorized:
		return "401"
	case status == http.StatusNotFound:
		return "no"
	case status == http.StatusBadRequest && bytes.Contains(data, []byte("administrators")):
		return "400"
	case status >= 400 && status != http.StatusConflict: // a conflict is with the session's state, which is known by then
		return http.StatusText(status)
	case want == "own" && !bytes.Contains(data, []byte(`"root_id":"s"`)):
		return "own"
	case want == "part":
		return "part" // see TestReviewerReadsUpToCall
	}
	return "yes"
}

// waiting makes alice's session "s", which waits for an approval, and returns a function that makes a request of a
// route about it.
func (w *world) waiting(rt route) func(token string) (*http.Response, []byte) {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	ctx, user := w.t.Context(), engine.WithUser("alice")
	picture := cairn.File{MediaType: "image/png", Data: []byte("tree")}
	_, err := w.eng.Execute(ctx, "s", "bot", cairn.Messages(cairn.User(cairn.TextPart("pay"), cairn.FilePart(picture))), user)
	must(err)
	row := w.settled("s")
	queued, err := w.eng.Execute(ctx, "s", "bot", cairn.Text("hi"), user, engine.WithOnWaiting(engine.WaitingEnqueue))
	must(err)
	calls, err := w.eng.Inbox(ctx, store.CallQuery{RootID: "s"})
	must(err)
	call := calls.Items[0]
	approval := map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
	switch rt.Method + " " + rt.Path {
	case "POST /sessions/{id}/restore":
		must(w.eng.Delete(ctx, "s"))
	case "POST /inbox/{root}/{call}/release":
		_, err := w.eng.Claim(ctx, "s", call.ID, "rita", 0)
		must(err)
	}
	path := strings.Replace(rt.Path, "{message}/request", "1/request", 1)
	path = strings.NewReplacer("{id}", "s", "{root}", "s", "{call}", call.ID, "{run}", queued.ID(), "{checkpoint}", row.CheckpointID, "{message}", "0", "{file}", "0").Replace(path)
	for f := range fields(rt.In) {
		if f.Tag.Get("query") == "session_id" && rt.Path != "/inbox" {
			path += "?session_id=s"
		}
	}
	method := rt.Method
	if rt.Frames != nil && method == http.MethodGet {
		method = http.MethodHead // the stream has no end
	}
	bodies := map[string]any{
		"/start": map[string]any{"input": inputBody{Text: "hi"}, "on_waiting": "enqueue"},
		"/chat": map[string]any{"id": "s", "messages": []any{
			map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}},
		"/submit-tool-result":           approval,
		"/chat/{id}/submit-tool-result": approval,
		"/sessions":                     map[string]any{"agent": "bot"},
		"/chat/{id}":                    map[string]any{"archived": true},
		"/sessions/{id}":                map[string]any{"title": "A title"},
		"/sessions/{id}/rewind":         map[string]any{"checkpoint_id": row.CheckpointID},
		"/sessions/{id}/events":         map[string]any{"name": "note"},
		"/sessions/{id}/state":          map[string]any{"state": map[string]any{"plan": "pro"}},
	}
	body := bodies[rt.Path]
	switch {
	case rt.Method == http.MethodGet, rt.Method == http.MethodDelete:
		body = nil
	case body == nil && !strings.HasSuffix(rt.Path, "/restore") && !strings.HasSuffix(rt.Path, "/checkpoints"): // they read none
		body = map[string]any{}
	}
	return func(token string) (*http.Response, []byte) { return w.do(token, method, path, body) }
}
