package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// keyed posts with an Idempotency-Key. It returns the status and body of the response, and whether it was given
// before.
func (w *world) keyed(token, key, path string, body any) (int, string, bool) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), "POST", w.url+path, strings.NewReader(string(data)))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(keyHeader, key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header.Get(replayedHeader) != ""
}

// beside returns a second process on the same store.
func (w *world) beside(agent *cairn.Agent) *world {
	w.t.Helper()
	eng, err := engine.New(w.st, []*cairn.Agent{agent}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.servedBy(eng)
}

// servedBy is another server of the same users, with an engine on the same store.
func (w *world) servedBy(eng *engine.Engine) *world {
	w.t.Helper()
	w.t.Cleanup(func() { eng.Close(w.t.Context()) })
	h, err := New(eng, &w.h.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	srv := httptest.NewServer(newContract(w.t).around(h))
	w.t.Cleanup(srv.Close)
	w.t.Cleanup(h.Drain)
	return &world{t: w.t, st: w.st, eng: eng, h: h, url: srv.URL}
}

// cutShort changes the records of keys to those of processes that died before they answered.
func (w *world) cutShort() {
	w.t.Helper()
	page, err := w.st.Records().List(w.t.Context(), store.RecordQuery{Namespace: store.UserRecords, Prefix: keyPrefix})
	if err != nil || len(page.Items) == 0 {
		w.t.Fatal(page, err)
	}
	for _, rec := range page.Items {
		var kept keptAnswer
		if err := json.Unmarshal(rec.Value, &kept); err != nil {
			w.t.Fatal(err)
		}
		kept.Status, kept.Body = 0, nil
		value, _ := json.Marshal(kept)
		if _, err := w.st.Records().Put(w.t.Context(), store.RecordWrite{Namespace: store.UserRecords, Index: rec.Index, Key: rec.Key, Value: value, Seen: rec.Version, TTL: keysKept}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A request that is sent many times at once to two processes begins one turn, and all get the same response.
func TestKeyedStartsAtOnce(t *testing.T) {
	one := newWorld(t, nil)
	two := one.beside(newBot())
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for i := range 20 {
		all.Go(func() {
			status, text, _ := []*world{one, two}[i%2].keyed("a", "k1", "/start", startIn{Turn: client.Turn{Agent: "bot", Input: client.UserMessage{Text: "hi"}}})
			mu.Lock()
			answers[fmt.Sprint(status, text)]++
			mu.Unlock()
		})
	}
	all.Wait()
	if len(answers) != 1 {
		t.Fatalf("the answers are %v", answers)
	}
	list := want[pageBody[cairn.Session]](one, 200, "a", "GET", "/sessions", nil)
	if len(list.Items) != 1 {
		t.Fatalf("%d sessions were made", len(list.Items))
	}
	row := one.settled(list.Items[0].ID)
	if row.Turn != 1 || row.MessageCount != 2 {
		t.Errorf("it has %d turns with %d messages", row.Turn, row.MessageCount)
	}
	// The key belongs to the user, and to this route.
	if _, text, again := one.keyed("e", "k1", "/start", startIn{Turn: client.Turn{Agent: "bot", Input: client.UserMessage{Text: "hi"}}}); again || answers[fmt.Sprint(202, text)] > 0 {
		t.Errorf("another user gets %s", text)
	}
	if status, _, again := two.keyed("a", "k1", "/sessions", createIn{Create: wire.Create{Agent: "bot"}}); status != 201 || again {
		t.Errorf("another route: %d", status)
	}
}

// What was done under a key is not done again: neither if the process died before it answered, nor if the response
// is known.
func TestKeyedPostsAreDoneOnce(t *testing.T) {
	w := newWorld(t, nil)
	two := w.beside(newBot())
	rest := func() {
		t.Helper()
		run, err := w.eng.Attach(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		run.Wait(t.Context()) // however it ended
	}
	post := func(key, path string, body any) (string, string) {
		t.Helper()
		status, first, again := w.keyed("a", key, path, body)
		if status >= 300 || again {
			t.Fatalf("POST %s: %d %s", path, status, first)
		}
		before, _ := w.eng.Session(t.Context(), "s")
		if _, text, again := two.keyed("a", key, path, body); text != first || !again {
			t.Errorf("POST %s again: %s, first %s", path, text, first)
		}
		rest()
		if before != nil {
			before, _ = w.eng.Session(t.Context(), "s")
		}
		w.cutShort()
		status, text, _ := two.keyed("a", key, path, body)
		if status >= 300 {
			t.Errorf("POST %s after a crash: %d %s", path, status, text)
		}
		if after, _ := w.eng.Session(t.Context(), "s"); before != nil && after.Version != before.Version {
			t.Errorf("POST %s was done twice: %+v, then %+v", path, before, after)
		}
		return first, text
	}
	same := func(first, second string) {
		t.Helper()
		if first != second {
			t.Errorf("got %s, then %s", first, second)
		}
	}
	same(post("start", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}}))
	call := want[client.Status](w, 200, "a", "GET", "/status?session_id=s", nil).Calls[0]
	same(post("claim", "/inbox/s/"+call.ID+"/claim", struct{}{}))
	_, receipt := post("submit", "/submit-tool-result", map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID,
		"approval_id": call.ApprovalID, "approved": true})
	if !strings.Contains(receipt, string(cairn.OutcomeAlreadyCompleted)) || !strings.Contains(receipt, `"verdict":"approved"`) {
		t.Errorf("the second receipt is %s", receipt)
	}
	same(post("resume", "/resume", sessionIn{SessionID: "s"}))
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	post("stop", "/abort", stopIn{wire.Stop{SessionID: "s"}})
	same(post("retry", "/retry", sessionIn{SessionID: "s"}))
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}})
	w.settled("s")
	post("stop", "/interrupt", stopIn{wire.Stop{SessionID: "s"}})
	same(post("make", "/sessions", createIn{Create: wire.Create{Agent: "bot"}}))
	same(post("branch", "/sessions/s/branch", branchIn{}))
	marks := want[pageBody[cairn.Checkpoint]](w, 200, "a", "GET", "/sessions/s/checkpoints", nil)
	back := rewindIn{Rewind: wire.Rewind{CheckpointID: marks.Items[0].ID}}
	post("rewind", "/sessions/s/rewind", back)
	want[client.Started](w, 202, "a", "POST", "/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "more"}}})
	count := w.settled("s").MessageCount
	if _, text, _ := two.keyed("a", "rewind", "/sessions/s/rewind", back); w.settled("s").MessageCount != count {
		t.Errorf("a turn was lost: %s", text)
	}
}

// A key that was used for another request is refused, and so is an invalid one. The key of a refused request is
// free.
func TestKeys(t *testing.T) {
	w := newWorld(t, nil)
	begin := startIn{Turn: client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}}
	if status, text, _ := w.keyed("a", "k", "/start", startIn{Turn: client.Turn{SessionID: "s", Agent: "none", Input: client.UserMessage{Text: "hi"}}}); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := w.keyed("a", "k", "/start", begin); status != 202 {
		t.Errorf("%d %s", status, text)
	}
	row := w.settled("s")
	begin.Input.Text = "other"
	status, text, _ := w.keyed("a", "k", "/start", begin)
	if status != 422 || !strings.Contains(text, "idempotency_key_reused") {
		t.Errorf("%d %s", status, text)
	}
	for _, key := range []string{"", " ", "a b", "ü", strings.Repeat("k", 129)} {
		if status, text, _ := w.keyed("a", key, "/start", begin); status != 400 || !strings.Contains(text, keyHeader) {
			t.Errorf("%q: %d %s", key, status, text)
		}
	}
	if after := w.settled("s"); after.Version != row.Version {
		t.Errorf("the session changed: %+v", after)
	}
}

// The records of a user's requests are erased with the user.
func TestAnswersAreErasedWithTheUser(t *testing.T) {
	w := newWorld(t, nil)
	for _, user := range []string{"a", "e"} {
		if status, text, _ := w.keyed(user, "k", "/sessions", createIn{Create: wire.Create{Agent: "bot"}}); status != 201 {
			t.Fatal(status, text)
		}
	}
	if r, err := w.eng.EraseUser(t.Context(), "alice"); err != nil || r.Records != 1 || r.Erased != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	page, err := w.st.Records().List(t.Context(), store.RecordQuery{Namespace: store.UserRecords})
	if err != nil || len(page.Items) != 1 || page.Items[0].Index != driver.UserIndex("eve") {
		t.Errorf("%d are left, %v", len(page.Items), err)
	}
}

// A kept answer is shown again only to a principal who may still do what was done: not after its role was revoked,
// nor to another one of the same name, nor once the session or the call is another's.
func TestReplaysAreAuthorised(t *testing.T) {
	for name, revoke := range map[string]func(*world, *Principal){
		"the role": func(_ *world, p *Principal) { p.Roles = nil },
		"the owner": func(w *world, _ *Principal) {
			want[cairn.Session](w, 200, "x", "PATCH", "/sessions/s", `{"user_id": "eve"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ann := &Principal{User: "alice", Roles: []Role{RoleUser}}
			w := newWorld(t, &Options{RequestsPerMinute: -1, Authenticate: func(r *http.Request) (*Principal, error) {
				if r.Header.Get("Authorization") == "Bearer x" {
					return &Principal{User: "xena", Roles: []Role{RoleAdmin}}, nil
				}
				p := *ann
				return &p, nil
			}})
			call := w.ask("hi", "pay")[0]
			approval := map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true}
			posts := []struct {
				path string
				body any
			}{
				{"/start", startIn{Turn: client.Turn{SessionID: "s", Input: client.UserMessage{Text: "more"}, Unready: client.Unready{OnWaiting: "enqueue"}}}},
				{"/inbox/s/" + call.ID + "/claim", struct{}{}},
				{"/inbox/s/" + call.ID + "/release", struct{}{}},
				{"/submit-tool-result", approval},
				{"/interrupt", sessionIn{SessionID: "s"}},
				{"/sessions/s/branch", branchIn{Branching: client.Branching{SessionID: "t"}}},
				{"/sessions/s/fork", client.Forking{Branching: client.Branching{SessionID: "u", Messages: new(1)}}},
			}
			for _, p := range posts {
				if status, text, again := w.keyed("a", "k", p.path, p.body); status >= 300 || again {
					t.Fatalf("POST %s: %d %s", p.path, status, text)
				}
				if status, text, again := w.keyed("a", "k", p.path, p.body); status >= 300 || !again {
					t.Fatalf("POST %s again: %d %s", p.path, status, text)
				}
			}
			revoke(w, ann)
			for _, p := range posts {
				if status, text, _ := w.keyed("a", "k", p.path, p.body); status != 404 {
					t.Errorf("POST %s: %d %s", p.path, status, text)
				}
			}
		})
	}
}
