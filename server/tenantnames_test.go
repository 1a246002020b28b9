package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// Ids with a tenant are refused in every place where a client of a tenant, or of none, names a session or a person.
func TestTenantClientsSendNames(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, token := range []string{"acme:x", "x"} {
		for _, id := range []string{"acme::s", "other::s", "::s", "s::"} {
			for path, body := range map[string]any{
				"GET /sessions/" + id: nil, "GET /status?session_id=" + id: nil, "GET /sessions?user_id=" + id: nil, "GET /sessions?parent_id=" + id: nil,
				"GET /sessions?thread_id=" + id: nil, "GET /inbox?session_id=" + id: nil, "GET /inbox?user_id=" + id: nil, "GET /chat/" + id: nil,
				"GET /inbox/" + id + "/call": nil, "POST /sessions": map[string]any{"session_id": id}, "GET /sse?session_id=" + id: nil,
				"POST /start": map[string]any{"session_id": id, "input": client.UserMessage{Text: "hi"}}, "PATCH /sessions/s": map[string]any{"user_id": id},
				"POST /sessions/s/branch": map[string]any{"session_id": id}, "POST /sessions/s/fork": map[string]any{"session_id": id, "messages": 1}, "DELETE /sessions/" + id: nil,
				"POST /submit-tool-result": map[string]any{"session_id": id, "type": "answer", "call_id": "c", "value": 1},
				"POST /inbox/s/c/claim":    map[string]any{"reviewer": id},
			} {
				method, path, _ := strings.Cut(path, " ")
				if res, data := w.do(token, method, path, body); res.StatusCode != 400 && res.StatusCode != 404 {
					t.Errorf("%s %s %s %v: status %d: %s", token, method, path, body, res.StatusCode, data)
				}
			}
		}
	}
}

// An operator of the platform sees every tenant, by ids, and acts as one tenant if the request says so. Nobody else can
// choose a tenant.
func TestPlatformPrincipal(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	as := func(token, tenant, method, path string, body any) (int, string) {
		t.Helper()
		raw, _ := json.Marshal(body)
		if body == nil {
			raw = nil
		}
		req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Cairn-Tenant", tenant)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var out strings.Builder
		if _, err := fmt.Fprint(&out, res.Header); err != nil {
			t.Fatal(err)
		}
		var data json.RawMessage
		json.NewDecoder(res.Body).Decode(&data)
		return res.StatusCode, string(data)
	}
	for _, id := range []string{"acme::s", "other::s", "s"} {
		if row := want[cairn.Session](w, 200, "platform", "GET", "/sessions/"+id, nil); row.ID != id || row.UserID != cairn.InTenant(row.Tenant, "alice") {
			t.Errorf("session %s: %+v", id, row)
		}
	}
	list := want[pageBody[cairn.Session]](w, 200, "platform", "GET", "/sessions?limit=100", nil)
	seen := map[string]int{}
	for _, s := range list.Items {
		seen[s.Tenant]++
	}
	if seen["acme"] != 4 || seen["other"] != 4 || seen[""] != 4 {
		t.Errorf("sessions by tenant: %v", seen)
	}
	status, text := as("platform", "acme", "GET", "/sessions?limit=100", nil)
	if status != 200 || strings.Contains(text, "::") || strings.Count(text, `"tenant":"acme"`) != 4 || strings.Contains(text, `"tenant":"other"`) {
		t.Errorf("as acme: status %d: %s", status, text)
	}
	if status, text := as("platform", "acme", "POST", "/sessions", map[string]any{"session_id": "made", "agent": "bot"}); status != 201 || strings.Contains(text, "::") {
		t.Errorf("as acme: status %d: %s", status, text)
	}
	if row, err := w.eng.Session(t.Context(), "acme::made"); err != nil || row.UserID != "acme::pia" {
		t.Errorf("made as acme: %+v, %v", row, err)
	}
	if made := want[cairn.Session](w, 201, "platform", "POST", "/sessions", map[string]any{"session_id": "other::made", "agent": "bot"}); made.UserID != "other::pia" {
		t.Errorf("made for other: %+v", made)
	}
	for _, test := range []struct {
		token, tenant string
		status        int
	}{
		{"acme:x", "acme", 200}, {"acme:x", "", 200}, {"acme:x", "other", 403}, {"acme:x", "*", 403}, {"x", "acme", 403}, {"x", "*", 403}, {"x", "", 200},
		{"platform", "*", 200}, {"platform", "a::b", 400}, {"platform", "a b", 400}, {"platform", "nobody", 200},
	} {
		if status, text := as(test.token, test.tenant, "GET", "/sessions", nil); status != test.status {
			t.Errorf("%s as %q: status %d, want %d: %s", test.token, test.tenant, status, test.status, text)
		}
	}
}

// Credentials with a user or tenant that cannot be one are no credentials.
func TestInvalidPrincipals(t *testing.T) {
	t.Parallel()
	for _, p := range []*Principal{{User: "acme::alice"}, {User: "a::", Tenant: "acme"}, {User: "alice", Tenant: "a::b"}, {User: "alice", Tenant: "-"}, {User: "alice", Tenant: "a b"}} {
		p.Roles = []Role{RoleAdmin}
		w := newWorld(t, &Options{Authenticate: Tokens(map[string]*Principal{"t": p})})
		want[problemBody](w, 401, "t", "GET", "/sessions", nil)
	}
}

// A policy is asked about sessions of the principal's tenant only, with ids on both sides.
func TestPolicySeesIDs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked, planned := map[string]bool{}, map[string]bool{}
	w := rich(t, &Options{Policy: func(_ context.Context, a Access) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if a.Principal.Tenant == AllTenants {
			planned[a.Session.UserID] = true
			return true, nil
		}
		asked[a.Principal.User+" "+a.Session.ID] = true
		tenant, _ := cairn.SplitTenant(a.Principal.User)
		if of, _ := cairn.SplitTenant(a.Session.ID); a.Session.ID != "" && of != tenant || a.Session.Tenant != tenant || a.Principal.Tenant != tenant {
			t.Errorf("asked whether %q of %q may use %q", a.Principal.User, a.Principal.Tenant, a.Session.ID)
		}
		if of, _ := cairn.SplitTenant(a.Session.UserID); a.Session.UserID != "" && of != tenant {
			t.Errorf("asked whether %q may use a session of %q", a.Principal.User, a.Session.UserID)
		}
		return OwnSessions(context.Background(), a)
	}})
	for _, token := range []string{"acme:a", "other:x", "x"} {
		for _, path := range []string{"/sessions", "/inbox", "/sessions/s", "/chat/s", "/agents", "/status?session_id=s", "/sessions/nothing"} {
			w.do(token, "GET", path, nil)
		}
		w.do(token, "POST", "/sessions", map[string]any{"agent": "bot"})
		w.do(token, "POST", "/start", map[string]any{"agent": "bot", "input": client.UserMessage{Text: "hi"}})
	}
	if _, data := w.do("platform", "POST", "/sessions", map[string]any{"session_id": "acme::planned", "agent": "bot"}); !planned["acme::pia"] {
		t.Errorf("a session of the platform's is planned for %v: %s", planned, data)
	}
	if !asked["acme::alice acme::s"] || !asked["other::xena other::s"] || !asked["xena s"] {
		t.Errorf("asked %v", asked)
	}
}

// Each parameter of a request is either known as a name in a tenant, or known not to be one; so is each field of a
// response.
func TestNamesAreKnown(t *testing.T) {
	t.Parallel()
	other := strings.Fields(`agent assistant assistant_id run call checkpoint checkpoint_id message file message_id messageId expires signature tenant
		status tag metadata search latest removed archived created_after created_before updated_after updated_before limit offset cursor include
		from to newest tool kind version after type run_id reason name title trace_parent text media_type url call_id approval_id error on_busy on_waiting
		model trigger notes entry entity source state as_of attribute comment snapshot prefix path format instructions ticket`)
	for _, rt := range routes() {
		for _, field := range reflect.VisibleFields(rt.In) {
			name := parameter(field)
			at := field.Type
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			if at.Kind() == reflect.String && name != "" && name != "-" && !naming[name] && !slices.Contains(other, name) {
				t.Errorf("%s %s: is %s a name in a tenant?", rt.Method, rt.Path, name)
			}
			if naming[name] && at.Kind() != reflect.String {
				t.Errorf("%s %s: %s is no text", rt.Method, rt.Path, name)
			}
		}
	}
	ofNames := strings.Fields("session_id root_id parent_id thread_id user_id child_id reviewer reviewers claimed_by background")
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(at reflect.Type) {
		if at == nil || seen[at] {
			return
		}
		seen[at] = true
		switch at.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(at.Elem())
		case reflect.Struct:
			for i := range at.NumField() {
				f := at.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if f.IsExported() && f.Type.Kind() != reflect.Bool && slices.Contains(ofNames, name) && !slices.Contains(namesOf(at).ids, f.Name) &&
					(at != reflect.TypeFor[cairn.Checkpoint]() || name != "parent_id") {
					t.Errorf("%s.%s is shown with its tenant", at, f.Name)
				}
				if f.IsExported() {
					walk(f.Type)
				}
			}
		}
	}
	for _, rt := range routes() {
		walk(rt.Out)
		walk(rt.Frames)
	}
	if !seen[reflect.TypeFor[cairn.Event]()] || !seen[reflect.TypeFor[cairn.PendingCall]()] {
		t.Error("the responses were not looked at")
	}
}

// Names replace ids in copies only.
func TestBareCopies(t *testing.T) {
	t.Parallel()
	run := &cairn.Run{SessionID: "acme::s", Error: &cairn.Error{Message: `session "acme::s" of "acme::x"`, Details: []string{"acme::s"}},
		Suspended: &cairn.Suspension{Calls: []cairn.CallRef{{RootID: "acme::s", Reviewers: []string{"acme::ann", "other::x"}}}, Children: []cairn.ChildRef{{SessionID: "acme::c"}}}}
	before, _ := json.Marshal(run)
	out, _ := json.Marshal(bare("acme", any([]*cairn.Run{run, nil})))
	if after, _ := json.Marshal(run); string(after) != string(before) {
		t.Errorf("changed: %s", after)
	}
	if text := string(out); strings.Contains(text, "acme::") || !strings.Contains(text, "other::x") || !strings.HasSuffix(text, ",null]") {
		t.Errorf("bare: %s", out)
	}
	for _, v := range []any{nil, none{}, 7, "acme::s", []string(nil), (*cairn.Session)(nil), pageBody[cairn.Session]{}} {
		if got := bare("acme", v); !reflect.DeepEqual(got, v) {
			t.Errorf("%#v becomes %#v", v, got)
		}
	}
	if got := bare("", run); got != run {
		t.Error("a copy is made without a tenant")
	}
}

// The document names the header of platform operators for each route that has a principal.
func TestTenantHeaderIsDocumented(t *testing.T) {
	t.Parallel()
	raw, err := openAPI(routes(), true, false)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, rt := range routes() {
		named := false
		for _, p := range doc.Paths[rt.Path][strings.ToLower(rt.Method)].Parameters {
			named = named || p.In == "header" && p.Name == tenantHeader
		}
		if named == rt.anonymous {
			t.Errorf("%s %s: documented %t", rt.Method, rt.Path, named)
		}
	}
}
