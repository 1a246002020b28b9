package server

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/store/driver"
)

// An operator sees who drives what and what is due, in its tenant only; the processes are for the operators of no tenant.
func TestOperations(t *testing.T) {
	w := newTenants(t)
	for _, id := range []string{"acme::s", "s", "other::s"} {
		w.same(id)
		call := w.openCallOf(id)
		if _, err := w.eng.Submit(t.Context(), id, cairn.Approve(call)); err != nil {
			t.Fatal(err)
		}
		_, err := w.st.Commit(t.Context(), id+"-held", &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: "bot"}, Status: cairn.SessionActive,
			StartRun: &cairn.Run{ID: "run-of-" + id, Agent: "bot", Kind: cairn.RunExecute, Status: cairn.RunRunning},
			Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "elsewhere", TTL: 1 << 40}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string]struct {
		n     int
		owner string
		first string
	}{"o": {1, "elsewhere", "s"}, "acme:o": {1, "", "s"}, "acme:x": {1, "", "s"}, "platform": {3, "elsewhere", ""}} {
		got := wantOperations(w, token, "")
		if len(got.Leases) != want.n || len(got.Unserved) != want.n || len(got.Due) != 1 || got.Due[0].Kind != "ready" || got.Due[0].Count != want.n {
			t.Fatalf("%s: %+v", token, got)
		}
		if l := got.Leases[0]; l.Owner != want.owner || l.Registered || want.first != "" && (l.SessionID != want.first+"-held" || got.Unserved[0].SessionID != want.first) {
			t.Errorf("%s: %+v, %+v", token, l, got.Unserved)
		}
		if len(got.Days) != 1 || got.Days[0].ModelCalls != int64(want.n) {
			t.Errorf("%s: %+v", token, got.Days)
		}
	}
	if got := wantOperations(w, "platform", "?limit=2"); len(got.Leases) != 2 || got.Due[0].Count != 3 || len(got.More) != 2 {
		t.Errorf("two items of each list: %+v", got)
	}
	for token, status := range map[string]int{"a": 404, "r": 404, "acme:a": 404} {
		want[problemBody](w, status, token, "GET", "/operations", nil)
	}
	if p := want[problemBody](w, 400, "o", "GET", "/operations?limit=101", nil); p.Field != "limit" {
		t.Errorf("a limit that is too high: %+v", p)
	}
	c, err := client.New(w.url, &client.Options{Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	who, err := c.Identity(t.Context())
	if got, failed := c.Operations(t.Context(), 1); err != nil || failed != nil || who.User != "xena" || len(got.Leases) != 1 {
		t.Errorf("the client: %+v, %v, %+v, %v", who, err, got, failed)
	}
	if list, err := c.Situations(t.Context(), client.SessionQuery{}); err != nil || len(list.Items) != 2 || list.Items[1].ID != "s" || list.Items[1].Situation.Kind != cairn.SituationWorker {
		t.Errorf("the client's situations: %+v, %v", list, err)
	}
	if list, err := c.CountSessions(t.Context(), client.SessionQuery{Agent: "bot", Statuses: []cairn.SessionStatus{cairn.SessionPaused}}, 5); err != nil || len(list) != 1 || list[0].Count != 1 {
		t.Errorf("the client's counts: %+v, %v", list, err)
	}
}

func wantOperations(w *world, token, query string) *cairn.Operations {
	w.t.Helper()
	got := want[cairn.Operations](w, 200, token, "GET", "/operations"+query, nil)
	return &got
}

func (w *world) openCallOf(id string) cairn.CallRef {
	w.t.Helper()
	page, err := w.eng.Inbox(w.t.Context(), driver.CallQuery{RootID: id})
	if err != nil || len(page.Items) != 1 {
		w.t.Fatal(page.Items, err)
	}
	return page.Items[0].CallRef
}
