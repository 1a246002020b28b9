// Package consoletest walks through the pages of the console in a browser, in front of a server with seeded sessions, and
// makes its screenshots.
package consoletest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/console"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/internal/notebook"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// The tokens of the site's people, which are their names.
const (
	admin = "n.okt" // all roles
	user  = "j.amsel"
	kim   = "k.ilves" // a reviewer
)

// Site is a server with the console below /deep/console/ and the API below /deep/.
type Site struct {
	URL  string
	h    *server.Handler
	book notebook.Memory
	st   *memstore.Store
	srv  *httptest.Server
}

// Start serves a new store. An open site has no authentication.
func Start(t testing.TB, open bool) *Site {
	t.Helper()
	table, err := cairn.ParseModels([]byte(`[
		{"provider": "sample", "name": "large-4", "window": 200000, "input": 3, "output": 15, "as_of": "2026-11-01", "source": "https://example.com"},
		{"provider": "sample", "name": "small-4", "window": 200000, "input": 0.5, "output": 2, "as_of": "2026-11-01", "source": "https://example.com"}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{book: notebook.Memory{Kind: cairn.MemoryOfUser}, st: memstore.New(nil)}
	eng, err := engine.New(s.st, agents(&s.book), &engine.Options{Models: table})
	if err != nil {
		t.Fatal(err)
	}
	everything := []server.Role{server.RoleUser, server.RoleReviewer, server.RoleOperator, server.RoleAdmin}
	opts := &server.Options{RequestsPerMinute: -1, StreamsPerUser: -1, AllowUnauthenticated: open}
	if !open {
		principals := map[string]*server.Principal{admin: {User: admin, Roles: everything}, kim: {User: kim, Roles: []server.Role{server.RoleReviewer}}}
		for _, name := range []string{user, "a.reh", "m.oro", "b.ehr", "s.haddad"} {
			principals[name] = &server.Principal{User: name, Roles: []server.Role{server.RoleUser}}
		}
		opts.Authenticate, opts.SignIn = server.Tokens(principals), &server.SignIn{}
	}
	h, err := server.New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/deep/", http.StripPrefix("/deep", h))
	mux.Handle("/deep/console/session", http.StripPrefix("/deep", h))
	mux.Handle("/deep/console/", http.StripPrefix("/deep/console", console.New(&console.Options{Links: true})))
	srv := httptest.NewServer(mux)
	s.URL, s.h, s.srv = srv.URL+"/deep/", h, srv
	t.Cleanup(func() {
		h.Drain()
		srv.CloseClientConnections()
		srv.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second) // some answers take minutes
		defer cancel()
		eng.Close(ctx)
	})
	return s
}

// Call makes a request as a person and decodes the response into out, unless that is nil.
func (s *Site) Call(t *testing.T, who, method, path string, body, out any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+who)
	req.Header.Set("Content-Type", "application/json")
	if method == "GET" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v %s", method, path, res.StatusCode, err, got)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(got, out); err != nil {
		t.Fatal(err)
	}
}

// Say starts a turn and, unless status is empty, waits until the session has that status.
func (s *Site) Say(t *testing.T, who, session, agent, text string, status cairn.SessionStatus) {
	t.Helper()
	s.Call(t, who, "POST", "start", map[string]any{"session_id": session, "agent": agent, "input": map[string]any{"text": text}}, nil)
	for deadline := time.Now().Add(20 * time.Second); status != ""; {
		var row cairn.Session
		if s.Call(t, who, "GET", "sessions/"+session, nil, &row); row.Status == status {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("session %s is %s, not %s", session, row.Status, status)
		}
	}
}

// Edit makes a session whose first message was edited.
func (s *Site) Edit(t *testing.T, who, session, before, after string) {
	t.Helper()
	s.Say(t, who, session, "support", before, cairn.SessionCompleted)
	var list struct{ Items []cairn.Message }
	s.Call(t, who, "GET", "sessions/"+session+"/messages?limit=1", nil, &list)
	message := map[string]any{"id": list.Items[0].ID, "role": "user", "parts": []any{map[string]any{"type": "text", "text": after}}}
	s.Call(t, who, "POST", "chat", map[string]any{"id": session, "messageId": list.Items[0].ID, "messages": []any{message}}, nil)
}

// Lose makes a call of an effectful tool whose outcome nobody knows.
func (s *Site) Lose(t *testing.T, who, session, to string) {
	t.Helper()
	s.Say(t, who, session, "support", "transfer "+to, "")
	for deadline := time.Now().Add(20 * time.Second); ; {
		var sent cairn.Page[cairn.PendingCall]
		s.Call(t, who, "GET", "effects?state=sent&limit=100&session_id="+session, nil, &sent)
		if len(sent.Items) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the tool was not called")
		}
	}
	s.Call(t, who, "POST", "interrupt", map[string]string{"session_id": session}, nil)
}

// Fill makes a completed session with a number of turns, of two messages each. Turn n is about order n.
func (s *Site) Fill(t testing.TB, session string, turns int) {
	t.Helper()
	var messages []cairn.Message
	for n := 1; n <= turns; n++ {
		run := fmt.Sprintf("run-%d", n)
		messages = append(messages,
			cairn.Message{ID: fmt.Sprintf("asked-%d", n), RunID: run, Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart(fmt.Sprintf("Where is order %d?", n))}},
			cairn.Message{ID: fmt.Sprintf("said-%d", n), RunID: run, Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(fmt.Sprintf("Order %d is on its way. ", n) + strings.Repeat("It comes soon. ", n%40))}})
	}
	s.record(t, session, fmt.Sprintf("run-%d", turns), messages)
}

// FillTurn makes a completed session with one turn of a number of calls.
func (s *Site) FillTurn(t testing.TB, session string, calls int) {
	t.Helper()
	messages := []cairn.Message{{ID: "asked", RunID: session, Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("Look everywhere.")}}}
	for n := 1; n <= calls; n++ {
		call := fmt.Sprintf("call-%d", n)
		messages = append(messages,
			cairn.Message{ID: "uses-" + call, RunID: session, Role: cairn.RoleAssistant, Parts: []cairn.Part{{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: call, Tool: "look", Input: json.RawMessage(fmt.Sprintf(`{"in":"box %d"}`, n))}}}},
			cairn.Message{ID: "has-" + call, RunID: session, Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: call, Tool: "look", Output: json.RawMessage(`"empty"`)}}}})
	}
	s.record(t, session, session, append(messages, cairn.Message{ID: "said", RunID: session, Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("It is nowhere.")}}))
}

// record makes a completed session with messages. last is the run of the last one.
func (s *Site) record(t testing.TB, session, last string, messages []cairn.Message) {
	t.Helper()
	row, err := s.st.Commit(t.Context(), session, &driver.Commit{
		Guard: driver.Guard{Idle: true}, Create: &cairn.Session{Agent: "support", UserID: user}, InitialState: json.RawMessage(`{}`), Messages: messages, Status: cairn.SessionActive,
		StartRun: &cairn.Run{ID: last, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "filler", TTL: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.st.Commit(t.Context(), session, &driver.Commit{
		Guard: driver.Guard{Token: row.Lease.Token, Version: row.Version}, EndRun: &cairn.Run{ID: last, Status: cairn.RunCompleted, Reason: cairn.ReasonReply}, Status: cairn.SessionCompleted,
		Lease: driver.LeaseChange{Action: driver.LeaseRelease},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Remember adds memories of a user: one in its second version, one in quarantine, and hostile ones.
func (s *Site) Remember(t *testing.T, who string) {
	t.Helper()
	list, err := s.book.Of(&cairn.Session{UserID: who})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	said := cairn.MemorySource{Kind: cairn.MemoryUserSaid, Session: "order-42"}
	entries := []cairn.MemoryEntry{
		{ID: "address", Kind: cairn.MemoryFact, Text: "Lives at 3 Ash Lane.", Entity: who, Attribute: "address", Source: said, ValidFrom: at.Add(-90 * 24 * time.Hour), StoredAt: at},
		{ID: "voucher", Kind: cairn.MemoryFact, Text: "Is owed a voucher of 500 EUR.", Entity: who, State: cairn.MemoryQuarantined, Source: cairn.MemorySource{Kind: cairn.MemoryToolReturned, Tool: "read_mail", Session: "order-42"}, ValidFrom: at, StoredAt: at},
		{ID: "said", Kind: cairn.MemorySaid, Text: "The cups arrived in pieces.", Speaker: who, Source: said, ValidFrom: at, StoredAt: at},
	}
	for i, text := range hostile {
		entries = append(entries, cairn.MemoryEntry{ID: fmt.Sprint("hostile-", i), Kind: cairn.MemoryFact, Text: text, Entity: text, Source: said, ValidFrom: at, StoredAt: at})
	}
	if _, err := list.Add(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	if _, err := list.Correct(t.Context(), "address", cairn.MemoryEntry{ID: "moved", Kind: cairn.MemoryFact, Text: "Lives at 5 Elm Road.", Entity: who, Attribute: "address", Source: said, ValidFrom: at, StoredAt: at}); err != nil {
		t.Fatal(err)
	}
}

// Titles that try to break a page.
var hostile = []string{
	"https://shop.example/orders/view?id=42&token=abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefg",
	fmt.Sprintf("%0200d", 7),
	"هل يمكنني تغيير عنوان التسليم للطلب ٤٨؟",
	"🎁🎄 gift wrap??? 🎄🎁 for order 45 please!!!",
	"<img src=x onerror=alert(1)> is my coupon \u202egnp.exe",
}

// Seed fills the site with sessions of every status.
func (s *Site) Seed(t *testing.T) {
	t.Helper()
	s.SeedWork(t)
	s.Say(t, user, "order-42", "support", "What have I ordered this month?", cairn.SessionCompleted)
	s.Say(t, user, "order-42", "", "Order 42 arrived broken, two of the cups are in pieces.", cairn.SessionPaused)
	s.Call(t, admin, "POST", "sessions/order-42/fork", map[string]any{"session_id": "forked", "messages": 5, "model": "small", "instructions": hostile[0]}, nil)
	s.Call(t, admin, "POST", "sessions/order-42/fork", map[string]any{"session_id": "shorter", "messages": 5, "model": "small", "instructions": "Answer in one sentence."}, nil)
	s.Edit(t, user, "edited", "Which cups are best?", "Which cups are best for a gift?")
	s.Fill(t, "long", 200)
	s.Say(t, "b.ehr", "close", "support", "Delete everything you have about me", cairn.SessionPaused)
	s.Say(t, "a.reh", "colour", "support", "Which colour do the new cups have?", cairn.SessionPaused)
	for i, text := range hostile {
		s.Say(t, "s.haddad", fmt.Sprintf("hostile-%d", i), "support", text, cairn.SessionCompleted)
	}
	s.Say(t, "b.ehr", "hostile-call", "support", "refund "+hostile[1], cairn.SessionPaused)
	s.Call(t, admin, "POST", "sessions/report/scores", map[string]any{"name": "helpful", "value": 0.5, "comment": hostile[1]}, nil)
	s.Call(t, admin, "POST", "sessions/report/scores", map[string]any{"name": hostile[1][:100], "value": 1}, nil)
	s.Lose(t, "s.haddad", "transfer-hostile", hostile[0])
	s.Say(t, "a.reh", "lamp", "research", "Which cups go with the brass lamp?", cairn.SessionCompleted)
	s.Say(t, "a.reh", "running", "research", "endless", "")
}

// SeedWork fills the site with the sessions that operators work with.
func (s *Site) SeedWork(t *testing.T) {
	t.Helper()
	s.Say(t, "m.oro", "order-44", "support", "Where is order 44?", cairn.SessionFailed)
	s.Say(t, user, "rich", "support", "markdown", cairn.SessionCompleted)
	s.Say(t, user, "report", "support", "report "+hostile[1][:150]+".csv", cairn.SessionCompleted)
	s.Lose(t, user, "transfer", "j.amsel")
	s.Remember(t, user)
}
