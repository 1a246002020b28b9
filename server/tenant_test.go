package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// busyBot consults agents, asks ann for an approval, returns a file, and fails when it is asked to.
func busyBot() *cairn.Agent {
	says := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("ok") })
	helper := &cairn.Agent{Name: "helper", Description: "helps", Model: says}
	slow := &cairn.Agent{Name: "slow", Description: "works", Model: says}
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, payment) (string, error) { return "paid", nil },
		cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "ann", "rita"))
	nested := &cairn.Agent{Name: "nested", Description: "pays", Tools: []cairn.Tool{pay}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if r.Messages[len(r.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("nested is done")
		}
		return scripted.Call("pay", payment{1})
	})}
	task := map[string]string{"input": "go"}
	return &cairn.Agent{Name: "bot", Tools: []cairn.Tool{pay, cairn.SubAgent(helper), cairn.SubAgent(nested)},
		Companions: []cairn.Companion{{Agent: slow, Mode: cairn.NonBlocking}},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			last := r.Messages[len(r.Messages)-1]
			switch {
			case last.Role == cairn.RoleUser && strings.Contains(last.Text(), "fail"):
				return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "no model for session %q", r.SessionID))
			case last.Role == cairn.RoleUser && strings.Contains(last.Text(), "all"):
				return scripted.Reply(scripted.Text("Wait."), scripted.Call("helper", task), scripted.Call("nested", task), scripted.Call("pay", payment{2}),
					scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "slow", "message": "go"}))
			}
			return scripted.Reply(scripted.Text("You said: "+last.Text()), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &files[0]}))
		})}
}

// rich makes the same conversations in each tenant: "s" waits for approvals, "f" has failed, "old" was edited and branched.
func rich(t *testing.T, opts *Options) *world {
	t.Helper()
	opts.RequestsPerMinute, opts.Authenticate = -1, Tokens(inEachTenant())
	w := newWorldOf(t, opts, busyBot())
	for _, tenant := range []string{"acme", "other", ""} {
		say := func(name, text string, more ...engine.RunOption) {
			t.Helper()
			id := cairn.InTenant(tenant, name)
			run, err := w.eng.Execute(t.Context(), id, "bot", cairn.Text(text), append(more, engine.WithUser("alice"))...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); (err != nil) != (name == "f") {
				t.Fatal(err)
			}
		}
		say("s", "all of "+tenant)
		say("f", "fail")
		say("old", "hi from "+tenant)
		say("old", "hi again", engine.FromMessage(0), engine.KeepReplaced())
		if _, err := w.eng.Branch(t.Context(), cairn.InTenant(tenant, "old"), "branch"); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// A client of a tenant reads names, whatever it reads: no response to it has an id of all tenants. The routes about a
// session read the session of its own tenant.
func TestTenantReadsNames(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, token := range []string{"acme:a", "acme:o", "acme:x", "other:a", "other:x", "other:o", "a", "x", "o"} {
		tenant, role, ok := strings.Cut(token, ":")
		if !ok {
			tenant, role = "", token
		}
		for _, path := range w.readable(cairn.InTenant(tenant, "s"), tenant) {
			if strings.HasPrefix(path, "/memory/") || strings.Contains(path, "/workspace") { // these agents have none
				continue
			}
			res, data := w.do(token, "GET", path, nil)
			if res.StatusCode != 200 && !((strings.HasSuffix(path, "/request") || path == "/operations") && role == "a") {
				t.Errorf("%s GET %s: status %d: %s", token, path, res.StatusCode, data)
			}
			if text := string(data) + fmt.Sprint(res.Header); strings.Contains(text, "::") {
				t.Errorf("%s GET %s: the response has an id: %s", token, path, text)
			}
			for _, other := range []string{"acme", "other"} {
				if strings.Contains(string(data), "all of "+other) && tenant != other || strings.Contains(string(data), "hi from "+other) && tenant != other {
					t.Errorf("%s GET %s: the response is of %q: %s", token, path, other, data)
				}
			}
		}
		for _, path := range []string{"/sse?session_id=f&run_id=", "/sse?session_id=old&run_id="} {
			name := strings.TrimSuffix(strings.TrimPrefix(path, "/sse?session_id="), "&run_id=")
			runs := want[pageBody[cairn.Run]](w, 200, token, "GET", "/sessions/"+name+"/runs?newest=true", nil)
			text, status := w.all(token, path+runs.Items[0].ID, "")
			if status != 200 || !strings.Contains(text, `"session_id":"`+name+`"`) || strings.Contains(text, "::") {
				t.Errorf("%s GET %s: status %d: %s", token, path, status, text)
			}
		}
		res, data := w.do(token, "GET", "/sessions/no-such-session", nil)
		if res.StatusCode != 404 || strings.Contains(string(data), "::") {
			t.Errorf("%s: status %d: %s", token, res.StatusCode, data)
		}
	}
}

// readable returns the paths of all routes that read without a stream, about a session and others.
func (w *world) readable(id, tenant string) (list []string) {
	w.t.Helper()
	calls, err := w.eng.Inbox(w.t.Context(), store.CallQuery{RootID: id})
	if err != nil || len(calls.Items) != 2 {
		w.t.Fatal(calls, err)
	}
	children, err := w.eng.Sessions(w.t.Context(), store.SessionQuery{ParentID: id})
	if err != nil || len(children.Items) != 3 {
		w.t.Fatal(children, err)
	}
	row, err := w.eng.Session(w.t.Context(), cairn.InTenant(tenant, "old"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, child := cairn.SplitTenant(children.Items[0].ID)
	for _, rt := range routes() {
		if rt.Method != http.MethodGet || rt.Frames != nil || rt.anonymous {
			continue
		}
		for _, session := range []string{"s", "f", "old", child} {
			checkpoint, message := row.CheckpointID, "1"
			if strings.Contains(rt.Path, "{checkpoint}") && session != "old" || strings.Contains(rt.Path, "{file}") && session != "old" ||
				strings.Contains(rt.Path, "{call}") && session != "s" || strings.Contains(rt.Path, "/request") && session == "f" {
				continue
			}
			path := strings.NewReplacer("{id}", session, "{root}", session, "{call}", calls.Items[1].ID, "{checkpoint}", checkpoint, "{message}", message, "{file}", "0").Replace(rt.Path)
			for f := range fields(rt.In) {
				if f.Tag.Get("query") == "session_id" {
					path += "?session_id=" + session
				}
				if f.Tag.Get("query") == "include" && rt.Path != "/sessions" {
					path += "?include=messages,checkpoints,decisions"
				}
				if f.Tag.Get("query") == "archived" && session != child {
					path += map[string]string{"s": "?parent_id=s", "f": "?user_id=alice", "old": "?thread_id=old"}[session]
					if rt.Path == "/sessions" {
						path += "&include=situation"
					}
				}
			}
			list = append(list, path)
		}
	}
	return list
}

// What a client of a tenant does is done to its tenant, with names in requests, responses and streams.
func TestTenantActs(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	before, err := w.eng.Sessions(t.Context(), store.SessionQuery{Tenant: new("other"), Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	wantNames := func(what string, text string) {
		t.Helper()
		if strings.Contains(text, "::") {
			t.Errorf("%s has an id: %s", what, text)
		}
	}
	for _, call := range want[client.Status](w, 200, "acme:a", "GET", "/status?session_id=s", nil).Calls {
		if !slices.Equal(call.Reviewers, []string{"ann", "rita"}) || call.Tenant != "acme" {
			t.Errorf("call %+v", call)
		}
		path := "/inbox/s/" + call.ID
		if claimed := want[cairn.PendingCall](w, 200, "acme:r", "POST", path+"/claim", map[string]any{}); claimed.ClaimedBy != "rita" || claimed.RootID != "s" {
			t.Errorf("claimed: %+v", claimed)
		}
		text := fmt.Sprint(want[cairn.Receipt](w, 200, "acme:r", "POST", "/submit-tool-result?session_id=s", map[string]any{"type": "approval-response", "call_id": call.ID,
			"approval_id": call.ApprovalID, "approved": true, "reviewer": "rita"}).Call)
		wantNames("the receipt", text)
	}
	_, data := w.do("acme:a", "POST", "/chat", map[string]any{"id": "s", "messages": []any{map[string]any{"id": "x", "role": "assistant", "parts": []any{}}}})
	wantNames("a chat's stream", string(data))
	w.settled("acme::s")
	for path, body := range map[string]any{
		"/chat":                          map[string]any{"id": "new", "agent": "bot", "messages": []any{map[string]any{"id": "m1", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "hello"}}}}},
		"/start":                         map[string]any{"session_id": "begun", "agent": "bot", "run_id": "r", "input": client.UserMessage{Text: "hello"}},
		"/sessions":                      map[string]any{"session_id": "made", "agent": "bot"},
		"/sessions/old/branch":           map[string]any{"session_id": "another"},
		"/sessions/old/checkpoints":      nil,
		"/sessions/branch/branch":        map[string]any{},
		"/retry":                         map[string]any{"session_id": "f"},
		"/start?session_id=old":          map[string]any{"input": client.UserMessage{Text: "hello"}, "from_message": 0, "keep_replaced": true},
		"/interrupt?session_id=old":      map[string]any{},
		"/sessions/no-such/branch":       map[string]any{},
		"/sessions/another/restore":      nil,
		"/resume?session_id=old":         map[string]any{"input": client.UserMessage{Text: "hello"}},
		"/chat/old/submit-tool-result":   map[string]any{"type": "answer", "call_id": "none", "value": 1},
		"/sessions?":                     map[string]any{"session_id": "old"},
		"/chat?":                         map[string]any{"id": "old", "messages": []any{map[string]any{"id": "m9", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "fail"}}}}},
		"/start?session_id=s&":           map[string]any{"input": client.UserMessage{Text: "all"}},
		"/sessions/old/rewind?":          map[string]any{"checkpoint_id": "none"},
		"/submit-tool-result?":           map[string]any{"session_id": "old", "type": "answer", "call_id": "none", "value": 1},
		"/inbox/s/none/claim":            map[string]any{},
		"/abort?session_id=made":         map[string]any{},
		"/sessions/made/events":          map[string]any{"name": "note"},
		"/chat/made/interrupt":           map[string]any{},
		"/sessions/acme%3A%3Aold/rewind": map[string]any{"checkpoint_id": "none"},
	} {
		res, data := w.do("acme:x", "POST", path, body)
		if res.StatusCode >= 500 {
			t.Errorf("POST %s: status %d: %s", path, res.StatusCode, data)
		}
		if !strings.Contains(path, "%3A") {
			wantNames("POST "+path, string(data))
		}
	}
	for _, name := range []string{"new", "begun", "made", "another"} {
		row, err := w.eng.Session(t.Context(), "acme::"+name)
		if err != nil || row.Tenant != "acme" || row.User() != map[bool]string{true: "alice", false: "xena"}[name == "another"] {
			t.Errorf("session %s: %+v, %v", name, row, err)
		}
	}
	after, err := w.eng.Sessions(t.Context(), store.SessionQuery{Tenant: new("other"), Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range after.Items {
		if i >= len(before.Items) || after.Items[i].ID != before.Items[i].ID || after.Items[i].Version != before.Items[i].Version {
			t.Errorf("session %q of another tenant has changed", after.Items[i].ID)
		}
	}
}

// Pages of a tenant's lists continue by cursors that have no ids, in its own order.
func TestTenantPages(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, path := range []string{"/sessions?limit=1", "/sessions?limit=1&parent_id=s", "/inbox?limit=1", "/sessions/s/decisions?limit=1", "/chat/old/branches?limit=1"} {
		for _, token := range []string{"acme:x", "other:x", "x"} {
			var all []string
			for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
				page := want[pageBody[map[string]any]](w, 200, token, "GET", path+"&cursor="+cursor, nil)
				for _, item := range page.Items {
					all = append(all, fmt.Sprint(item["id"]))
				}
				if cursor = page.Next; strings.Contains(cursor+page.Cursor, "::") || n > 10 {
					t.Fatalf("%s GET %s: cursor %q after %q", token, path, cursor, page.Cursor)
				}
			}
			wantLen := map[string]int{"/sessions?limit=1": 4, "/sessions?limit=1&parent_id=s": 3, "/inbox?limit=1": 2, "/chat/old/branches?limit=1": 1}[path]
			if len(all) != wantLen || len(slices.Compact(slices.Sorted(slices.Values(all)))) != wantLen {
				t.Errorf("%s GET %s: %v", token, path, all)
			}
		}
	}
}

// A key of one tenant's request is not one of another's, although their users, paths and bodies are the same.
func TestTenantKeys(t *testing.T) {
	t.Parallel()
	principals := inEachTenant()
	for _, tenant := range []string{"acme", "other", ""} {
		principals["nobody"+tenant] = &Principal{Roles: []Role{RoleAdmin}, Tenant: tenant}
	}
	w := newWorld(t, &Options{Authenticate: Tokens(principals), RequestsPerMinute: -1})
	for _, of := range [][]string{{"acme:a", "other:a", "a"}, {"nobodyacme", "nobodyother", "nobody"}} {
		made := map[string]bool{}
		for _, token := range of {
			status, body, replayed := w.keyed(token, "key", "/sessions", map[string]any{"agent": "bot"})
			if status != 201 || replayed || strings.Contains(body, "::") {
				t.Errorf("%s: status %d, replayed %t: %s", token, status, replayed, body)
			}
			again, same, replayed := w.keyed(token, "key", "/sessions", map[string]any{"agent": "bot"})
			if again != 201 || !replayed || same != body {
				t.Errorf("%s: status %d, replayed %t: %s", token, again, replayed, same)
			}
			made[body] = true
		}
		if len(made) != 3 {
			t.Errorf("%d sessions", len(made))
		}
	}
}

// A file's signed address has the name of its session, and opens the file of its tenant's.
func TestTenantFiles(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, token := range []string{"acme:a", "other:a", "a", "platform"} {
		path := "/chat/old"
		if token == "platform" {
			path = "/chat/acme::old"
		}
		var address string
		for _, m := range want[chatBody](w, 200, token, "GET", path, nil).Messages {
			for _, p := range m.Parts {
				if p.Type == "file" {
					address = p.URL
				}
			}
		}
		if address == "" || strings.Contains(address, "::") || strings.Contains(address, "%3A") {
			t.Fatalf("%s: address %q", token, address)
		}
		if res, data := w.do("", "GET", address, nil); res.StatusCode != 200 || string(data) != "tree" {
			t.Errorf("%s GET %s: status %d: %s", token, address, res.StatusCode, data)
		}
		if strings.Contains(address, "tenant=acme") {
			for _, forged := range []string{"tenant=other", "tenant=", "x=1", "tenant=a::b"} {
				res, _ := w.do("", "GET", strings.Replace(address, "tenant=acme", forged, 1), nil)
				if res.StatusCode == 200 {
					t.Errorf("the address opens with %s", forged)
				}
			}
			message := map[string]any{"id": "again-" + token[:4], "role": "user", "parts": []any{map[string]any{"type": "text", "text": "hello"}, map[string]any{"type": "file", "mediaType": "image/png", "url": address}}}
			for reader, status := range map[string]int{"acme:a": 200, "other:a": 400} {
				if res, data := w.do(reader, "POST", "/chat", map[string]any{"id": "old", "messages": []any{message}}); res.StatusCode != status {
					t.Errorf("%s posts the address: status %d: %s", reader, res.StatusCode, data)
				}
			}
		}
	}
}

// A chat of a tenant streams its own session by names: live, again from the log, and with the addresses of its files.
func TestTenantChats(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	body := map[string]any{"id": "fresh", "agent": "bot", "messages": []any{text("user", "m1", "hello")}}
	streams := map[string]string{}
	for _, token := range []string{"acme:a", "other:a", "a"} {
		for _, when := range []string{"live", "again"} {
			res, data := w.do(token, "POST", "/chat", body)
			stream := string(data)
			if res.StatusCode != 200 || !strings.Contains(stream, "You said: hello") || strings.Contains(stream, "::") {
				t.Errorf("%s, %s: status %d: %s", token, when, res.StatusCode, stream)
			}
			address := regexp.MustCompile(`"url":"([^"]*)"`).FindStringSubmatch(stream)
			if address == nil {
				t.Fatalf("%s, %s: no file in %s", token, when, stream)
			}
			var path string
			if err := json.Unmarshal([]byte(`"`+address[1]+`"`), &path); err != nil {
				t.Fatal(err)
			}
			if res, data := w.do("", "GET", path, nil); res.StatusCode != 200 || string(data) != "tree" {
				t.Errorf("%s, %s: GET %s: status %d: %s", token, when, path, res.StatusCode, data)
			}
			streams[token+when] = stream
		}
	}
	if list := w.chat("acme:a", "fresh"); len(list) != 2 {
		t.Errorf("the chat is %q", list)
	}
}

// The sessions that follow each other in a thread of a tenant are the tenant's.
func TestTenantThreads(t *testing.T) {
	t.Parallel()
	for name, threads := range map[string]Threads{"each turn": {EachTurn: true}, "expired": {OnExpired: ExpiredNew}, "restored": {OnExpired: ExpiredRestore}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bot := newBot()
			bot.TTL = time.Hour
			w := newWorldOf(t, &Options{RequestsPerMinute: -1, Authenticate: Tokens(inEachTenant()), Threads: func(string) Threads { return threads }}, bot)
			for _, token := range []string{"acme:a", "other:a", "a", "platform"} {
				chat := map[string]string{"platform": "acme::of the platform"}[token]
				if chat == "" {
					chat = "s"
				}
				w.post(200, token, chat, nil, text("user", "one", "hi"))
			}
			if !threads.EachTurn {
				w.pass(2 * time.Hour)
			}
			for _, token := range []string{"acme:a", "other:a", "a"} {
				w.post(200, token, "s", nil, text("user", "one", "hi"), text("user", "two", "again "+token))
				if got := w.chat(token, "s"); !strings.HasSuffix(got[len(got)-1], "You said: again "+token) {
					t.Errorf("%s: the chat is %q", token, got)
				}
				tenant, _, confined := strings.Cut(token, ":")
				if !confined {
					tenant = ""
				}
				page, err := w.eng.Sessions(t.Context(), store.SessionQuery{ThreadID: cairn.InTenant(tenant, "s")})
				if err != nil || len(page.Items) == 0 {
					t.Fatal(page, err)
				}
				for _, s := range page.Items {
					if s.Tenant != tenant || s.UserID != cairn.InTenant(tenant, "alice") {
						t.Errorf("%s: session %q of %q", token, s.ID, s.UserID)
					}
				}
			}
			if row, err := w.eng.Thread(t.Context(), "acme::of the platform"); err != nil || row.UserID != "acme::pia" {
				t.Errorf("made by the platform: %+v, %v", row, err)
			}
		})
	}
}

// The streams of two sessions of one id, in two tenants, have the events of each.
func TestTenantStreams(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, tenant := range []string{"acme", "other"} {
		res, lines := w.stream(tenant+":a", "/sse?session_id=old", "")
		if res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
		want[client.Started](w, 202, tenant+":a", "POST", "/start", map[string]any{"session_id": "old", "input": client.UserMessage{Text: "more of " + tenant}})
		for lines.Scan() && !strings.Contains(lines.Text(), "You said: more of "+tenant) {
			if text := lines.Text(); strings.Contains(text, "::") || strings.Contains(text, "more of ") && !strings.Contains(text, tenant) {
				t.Errorf("tenant %q streams %s", tenant, text)
			}
		}
		if lines.Err() != nil {
			t.Error(lines.Err())
		}
	}
}

// The run of a turn that was begun with a run_id has the id that a remote agent derives from the names it knows, in
// each tenant.
func TestTenantRunIDs(t *testing.T) {
	t.Parallel()
	w := rich(t, &Options{})
	for _, token := range []string{"acme:a", "other:a", "a"} {
		body := map[string]any{"session_id": "asked", "agent": "bot", "run_id": "r", "input": client.UserMessage{Text: "hello"}}
		for range 2 {
			if run := want[client.Started](w, 202, token, "POST", "/start", body); run.RunID != ids.Derive("run", "asked", "r") || run.SessionID != "asked" || run.Turn != 1 {
				t.Errorf("%s: %+v", token, run)
			}
		}
	}
}

// The ledger of effects shows a principal those of its own tenant, in every state and on every page.
func TestTenantEffects(t *testing.T) {
	t.Parallel()
	transfer := cairn.Func("transfer", "Transfers.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, cairn.Effectful())
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{transfer}, Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Call("transfer", struct{}{})
	})}
	w := newWorldOf(t, &Options{RequestsPerMinute: -1, Authenticate: Tokens(inEachTenant())}, agent)
	tenants := []string{"acme", "other", ""}
	ledger := func(token string) (sessions []string) {
		t.Helper()
		for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
			_, data := w.do(token, "GET", "/effects?limit=1&cursor="+cursor, nil)
			var page pageBody[cairn.PendingCall]
			if err := json.Unmarshal(data, &page); err != nil || n > 20 || token != "platform" && strings.Contains(string(data), "::") {
				t.Fatalf("%s: %v: %s", token, err, data)
			}
			for _, call := range page.Items {
				sessions = append(sessions, call.Tenant+"/"+call.SessionID)
			}
			cursor = page.Next
		}
		slices.Sort(sessions)
		return sessions
	}
	want := func(when string) {
		t.Helper()
		for _, tenant := range tenants {
			for _, role := range []string{"a", "o", "x"} {
				token := strings.TrimPrefix(tenant+":"+role, ":")
				if got := ledger(token); !slices.Equal(got, []string{tenant + "/s1", tenant + "/s2"}) {
					t.Errorf("%s, %s: %v", when, token, got)
				}
			}
		}
		if got := ledger("platform"); len(got) != 6 {
			t.Errorf("%s, the platform: %v", when, got)
		}
	}
	for _, tenant := range tenants {
		for _, name := range []string{"s1", "s2"} {
			if _, err := w.eng.Execute(t.Context(), cairn.InTenant(tenant, name), "bot", cairn.Text("go"), engine.WithUser("alice")); err != nil {
				t.Fatal(err)
			}
		}
	}
	testclock.Await(t, "the effects to be under way", func() bool { return len(ledger("platform")) == 6 })
	want("under way")
	for _, tenant := range tenants {
		for _, name := range []string{"s1", "s2"} {
			if err := w.eng.Interrupt(t.Context(), cairn.InTenant(tenant, name), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	want("unknown")
	page, err := w.eng.Effects(t.Context(), engine.EffectQuery{Tenant: new("acme")})
	if err != nil || len(page.Items) == 0 {
		t.Fatal(page, err)
	}
	call := page.Items[0]
	settle := engine.EffectSettlement{Happened: true, By: "other::ann"}
	if _, err := w.eng.SettleEffect(t.Context(), call.RootID, call.ID, settle); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("settled by another tenant's: %v", err)
	}
	settle.By = "ann"
	settled, err := w.eng.SettleEffect(t.Context(), call.RootID, call.ID, settle)
	if err != nil || settled.Trail[len(settled.Trail)-1].Reviewer != "acme::ann" {
		t.Errorf("settled: %+v, %v", settled, err)
	}
}
