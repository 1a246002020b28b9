package server

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
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
GET    /sessions/{id}/turns                             401   yes    no     no        yes       yes
GET    /sessions/{id}/messages/{message}/request        401   400    no     no        yes       yes
GET    /sessions/{id}/messages/{message}/files/{file}   401   yes    no     part      yes       yes
GET    /sessions/{id}/artifacts                         401   yes    no     no        yes       yes
GET    /sessions/{id}/workspace                         401   yes    no     no        yes       yes
GET    /sessions/{id}/workspace/file                    401   yes    no     no        yes       yes
GET    /sessions/{id}/workspace/snapshots               401   yes    no     no        yes       yes
POST   /sessions/{id}/workspace/restore                 401   yes    no     no        no        yes
GET    /sessions/{id}/export                            401   yes    no     no        yes       yes
GET    /sessions/{id}/runs                              401   yes    no     no        yes       yes
GET    /sessions/{id}/checkpoints                       401   yes    no     no        yes       yes
POST   /sessions/{id}/checkpoints                       401   yes    no     no        no        yes
GET    /sessions/{id}/checkpoints/{checkpoint}          401   yes    no     no        yes       yes
GET    /sessions/{id}/decisions                         401   yes    no     no        yes       yes
POST   /sessions/{id}/scores                            401   yes    no     no        no        yes
GET    /sessions/{id}/scores                            401   yes    no     no        yes       yes
GET    /sessions/{id}/stream                            401   yes    no     no        yes       yes
POST   /sessions/{id}/events                            401   400    no     no        no        yes
GET    /sessions/{id}/queue                             401   yes    no     no        yes       yes
DELETE /sessions/{id}/queue/{run}                       401   yes    no     no        no        yes
POST   /sessions/{id}/branch                            401   yes    no     no        no        yes
POST   /sessions/{id}/fork                              401   yes    no     no        no        yes
POST   /sessions/{id}/clear-taint                       401   400    no     no        no        yes
POST   /sessions/{id}/rewind                            401   yes    no     no        no        yes
POST   /sessions/{id}/advance                           401   no     no     no        no        no
POST   /advance                                         no    no     no     no        no        no
GET    /session-counts                                  401   yes    own    own       yes       yes
GET    /agents                                          401   yes    yes    yes       yes       yes
GET    /inbox                                           401   yes    own    yes       yes       yes
GET    /inbox/{root}/{call}                             401   yes    no     yes       yes       yes
POST   /inbox/{root}/{call}/claim                       401   yes    no     yes       no        yes
POST   /inbox/{root}/{call}/release                     401   yes    no     yes       no        yes
GET    /effects                                         401   yes    own    own       yes       yes
POST   /effects/{root}/{call}/settle                    401   yes    no     yes       no        yes
GET    /memory/entries                                  401   yes    no     no        yes       yes
POST   /memory/entries                                  401   yes    no     no        no        yes
DELETE /memory/entries                                  401   yes    no     no        no        yes
GET    /memory/entries/{entry}                          401   yes    no     yes       yes       yes
DELETE /memory/entries/{entry}                          401   yes    no     no        no        yes
POST   /memory/entries/{entry}/correct                  401   yes    no     no        no        yes
POST   /memory/entries/{entry}/redact                   401   yes    no     no        no        yes
POST   /memory/entries/{entry}/promote                  401   no     no     yes       no        yes
GET    /memory/search                                   401   yes    no     no        yes       yes
GET    /memory/entities                                 401   yes    no     no        yes       yes
GET    /memory/sources                                  401   yes    no     no        yes       yes
GET    /usage                                           401   yes    own    own       yes       yes
GET    /budgets                                         401   yes    own    own       yes       yes
GET    /operations                                      401   no     no     no        yes       yes
POST   /console/session                                 401   yes    yes    yes       yes       yes
GET    /console/session                                 401   yes    yes    yes       yes       yes
DELETE /console/session                                 401   yes    yes    yes       yes       yes
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

// Every route serves each kind of principal as the table says, in a tenant as without one, and no other route exists. A
// principal of another tenant, whatever its role, finds nothing. What is done to a session changes none of the same id in
// another tenant.
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
		for _, tenant := range []string{"", "acme"} {
			t.Run(name+" in "+tenant, func(t *testing.T) {
				t.Parallel()
				checkAccess(t, rt, tenant, tokens, cells)
			})
		}
	}
	for name := range rows {
		t.Errorf("the table has a row for %s, which is no route", name)
	}
}

// inEachTenant are the principals of [newWorld] in the tenants "acme" and "other", and in none. The token of a tenant's
// principal begins with the tenant and a colon.
func inEachTenant() map[string]*Principal {
	all := map[string]*Principal{"platform": {User: "pia", Roles: []Role{RoleAdmin}, Tenant: AllTenants}}
	for _, tenant := range []string{"", "acme", "other"} {
		for token, p := range map[string]Principal{"a": {User: "alice", Roles: []Role{RoleUser}}, "e": {User: "eve", Roles: []Role{RoleUser}},
			"r": {User: "rita", Roles: []Role{RoleReviewer}}, "o": {User: "olga", Roles: []Role{RoleOperator}}, "x": {User: "xena", Roles: []Role{RoleAdmin}}} {
			if p.Tenant = tenant; tenant != "" {
				token = tenant + ":" + token
			}
			all[token] = &p
		}
	}
	return all
}

func newTenants(t *testing.T) *world {
	t.Helper()
	return newWorld(t, &Options{RequestsPerMinute: -1, Authenticate: Tokens(inEachTenant())})
}

// checkAccess makes requests of a route about the session "s" of a tenant.
func checkAccess(t *testing.T, rt route, tenant string, tokens, cells []string) {
	own := func(token string) string {
		if tenant == "" || token == "" {
			return token
		}
		return tenant + ":" + token
	}
	id := cairn.InTenant(tenant, "s")
	shared := newTenants(t)
	inShared := shared.waiting(tenant, rt)
	before, _ := shared.eng.Session(t.Context(), id)
	for _, elsewhere := range []string{"", "acme:", "other:"} {
		for _, role := range []string{"a", "e", "r", "o", "x"} {
			if token := elsewhere + role; token != own(role) {
				foreign(t, rt, token, inShared)
			}
		}
	}
	for i, want := range cells {
		w, do := shared, inShared
		if changes := rt.Method != http.MethodGet && want == "yes"; changes {
			w = newTenants(t)
			do = w.waiting(tenant, rt)
		}
		theirs := map[string]*cairn.Session{}
		for _, other := range []string{"", "acme", "other"} {
			if other != tenant && w != shared {
				theirs[other] = w.same(cairn.InTenant(other, "s"))
			}
		}
		res, data := do(own(tokens[i]))
		got := w.cell(want, res.StatusCode, data)
		if want == "no" && res.StatusCode == missing(rt) { // as for a session that is not there
			got = "no"
		}
		if got != want {
			t.Errorf("with token %q: status %d: %s: %s, want %s", own(tokens[i]), res.StatusCode, data, got, want)
		}
		if tenant != "" && strings.Contains(string(data), "::") {
			t.Errorf("with token %q: the response has an id of all tenants: %s", own(tokens[i]), data)
		}
		for other, before := range theirs {
			if after, err := w.eng.Session(t.Context(), before.ID); err != nil || after.Version != before.Version {
				t.Errorf("with token %q: the session of tenant %q has changed: %v", own(tokens[i]), other, err)
			}
		}
	}
	if after, _ := shared.eng.Session(t.Context(), id); before != nil && (after == nil || after.Version != before.Version) {
		t.Errorf("a request that was refused, or only reads, has changed the session: %+v", after)
	}
}

// same makes a session of alice's with an open call, like the one of [world.waiting].
func (w *world) same(id string) *cairn.Session {
	w.t.Helper()
	if _, err := w.eng.Execute(w.t.Context(), id, "bot", cairn.Text("pay"), engine.WithUser("alice")); err != nil {
		w.t.Fatal(err)
	}
	return w.settled(id)
}

// foreign makes a request as a principal of another tenant. It finds no session, or makes one of its own.
func foreign(t *testing.T, rt route, token string, do func(string) (*http.Response, []byte)) {
	t.Helper()
	res, data := do(token)
	ok := res.StatusCode == missing(rt)
	switch rt.Method + " " + rt.Path {
	case "GET /operations":
		ok = ok || strings.Contains(string(data), `"leases":[]`)
	case "GET /agents", "POST /console/session", "GET /console/session", "DELETE /console/session", "GET /openapi.json", "GET /healthz", "GET /readyz":
		return
	case "GET /sessions", "GET /inbox", "GET /effects", "GET /usage", "GET /budgets":
		ok = strings.Contains(string(data), `"items":[]`)
	case "GET /session-counts":
		ok = !strings.Contains(string(data), `"count":1`)
	case "POST /start", "POST /chat", "POST /sessions":
		ok = ok || res.StatusCode < 300
	}
	if !ok || strings.Contains(string(data), "::") {
		t.Errorf("with token %q of another tenant: status %d: %s", token, res.StatusCode, data)
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

// waiting makes alice's session "s" of a tenant, which waits for an approval, and returns a function that makes a request
// of a route about it.
func (w *world) waiting(tenant string, rt route) func(token string) (*http.Response, []byte) {
	w.t.Helper()
	id := cairn.InTenant(tenant, "s")
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	ctx, user := w.t.Context(), engine.WithUser("alice")
	picture := cairn.File{MediaType: "image/png", Data: []byte("tree")}
	_, err := w.eng.Execute(ctx, id, "bot", cairn.Messages(cairn.User(cairn.TextPart("pay"), cairn.FilePart(picture))), user)
	must(err)
	row := w.settled(id)
	queued, err := w.eng.Execute(ctx, id, "bot", cairn.Text("hi"), user, engine.WithOnWaiting(engine.WaitingEnqueue))
	must(err)
	calls, err := w.eng.Inbox(ctx, store.CallQuery{RootID: id})
	must(err)
	call := calls.Items[0]
	approval := map[string]any{"type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
	switch rt.Method + " " + rt.Path {
	case "POST /sessions/{id}/restore":
		must(w.eng.Delete(ctx, id))
	case "POST /inbox/{root}/{call}/release":
		_, err := w.eng.Claim(ctx, id, call.ID, "rita", 0)
		must(err)
	}
	if strings.Contains(rt.Path, "/effects") {
		call.ID, call.Kind, call.Status, call.ApprovalID, call.ToolCallID = "effect", cairn.CallEffect, cairn.CallDropped, "", call.ID
		call.Effect, call.StepID, call.Version = &cairn.Effect{State: cairn.EffectUnknown, Key: "key", Attempts: 1}, "earlier", 0
		_, err := w.st.Commit(ctx, id, &driver.Commit{Calls: []driver.CallWrite{{Call: call}}})
		must(err)
	}
	if strings.HasPrefix(rt.Path, "/memory/") {
		memories, err := w.eng.Agent("bot").Memory.(cairn.EditableMemory).Of(row)
		must(err)
		_, err = memories.Add(ctx, cairn.MemoryEntry{ID: "note", Text: "a tree", State: cairn.MemoryQuarantined})
		must(err)
	}
	path := strings.Replace(rt.Path, "{message}/request", "1/request", 1)
	path = strings.NewReplacer("{id}", "s", "{root}", "s", "{call}", call.ID, "{run}", queued.ID(), "{checkpoint}", row.CheckpointID, "{message}", "0", "{file}", "0", "{entry}", "note").Replace(path)
	for f := range fields(rt.In) {
		if f.Tag.Get("query") == "session_id" && rt.Path != "/inbox" && rt.Path != "/effects" {
			path += "?session_id=s"
		}
	}
	if strings.HasSuffix(rt.Path, "/workspace/file") {
		path += "?path=note.txt"
	}
	if rt.Path == "/memory/search" {
		path += "&text=tree"
	}
	method := rt.Method
	if rt.Frames != nil && method == http.MethodGet {
		method = http.MethodHead // the stream has no end
	}
	bodies := map[string]any{
		"/start": map[string]any{"input": client.UserMessage{Text: "hi"}, "on_waiting": "enqueue"},
		"/chat": map[string]any{"id": "s", "messages": []any{
			map[string]any{"id": "m", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "hi"}}}}},
		"/submit-tool-result":              approval,
		"/chat/{id}/submit-tool-result":    approval,
		"/sessions":                        map[string]any{"agent": "bot"},
		"/chat/{id}":                       map[string]any{"archived": true},
		"/sessions/{id}":                   map[string]any{"title": "A title"},
		"/sessions/{id}/clear-taint":       map[string]any{"notes": "harmless"},
		"/sessions/{id}/fork":              map[string]any{"messages": 1},
		"/sessions/{id}/rewind":            map[string]any{"checkpoint_id": row.CheckpointID},
		"/sessions/{id}/events":            map[string]any{"name": "note"},
		"/effects/{root}/{call}/settle":    map[string]any{"happened": true},
		"/memory/entries":                  map[string]any{"text": "a tree"},
		"/memory/entries/{entry}/correct":  map[string]any{"text": "a bush"},
		"/sessions/{id}/workspace/restore": map[string]any{"snapshot": "x"},
		"/sessions/{id}/scores":            map[string]any{"value": 1},
		"/sessions/{id}/state":             map[string]any{"state": map[string]any{"plan": "pro"}},
	}
	body := bodies[rt.Path]
	switch {
	case rt.Method == http.MethodGet, rt.Method == http.MethodDelete:
		body = nil
	case body == nil && !strings.HasSuffix(rt.Path, "/restore") && !rt.signsIn && !strings.HasSuffix(rt.Path, "/checkpoints") &&
		!strings.HasSuffix(rt.Path, "/redact") && !strings.HasSuffix(rt.Path, "/promote"): // they read none
		body = map[string]any{}
	}
	return func(token string) (*http.Response, []byte) { return w.do(token, method, path, body) }
}
