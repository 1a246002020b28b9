package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

const (
	ticketSecret = "0123456789abcdef0123456789abcdef"
	otherSecret  = "abcdef0123456789abcdef0123456789"
)

// advancing is a world whose runs are driven by calls. It returns the tickets, and the runs as they begin.
func advancing(t *testing.T, set func(*Advance), agent *cairn.Agent) (*world, *host.Tickets, <-chan host.Run) {
	t.Helper()
	tickets, err := host.NewTickets(ticketSecret)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan host.Run, 9)
	hosted, err := httphost.New(&httphost.Options{Start: func(_ context.Context, run host.Run) error {
		begun <- run
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	st := memstore.New(nil)
	eng, err := engine.New(st, []*cairn.Agent{agent}, &engine.Options{Host: hosted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	a := &Advance{Tickets: tickets}
	if set != nil {
		set(a)
	}
	h, err := New(eng, &Options{Advance: a, Authenticate: Tokens(map[string]*Principal{
		"a": {User: "alice", Roles: []Role{RoleUser}}, "e": {User: "eve", Roles: []Role{RoleUser}}})})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(newContract(t).around(h))
	t.Cleanup(srv.Close)
	t.Cleanup(h.Drain)
	return &world{t: t, st: st, eng: eng, h: h, url: srv.URL}, tickets, begun
}

func (w *world) begin(begun <-chan host.Run, text string) host.Run {
	w.t.Helper()
	if _, err := w.eng.Execute(w.t.Context(), "s", "bot", cairn.Text(text), engine.WithUser("alice")); err != nil {
		w.t.Fatal(err)
	}
	return <-begun
}

// A caller follows tickets until a response says that it is done. The owner of a session needs none.
func TestAdvanceRoutes(t *testing.T) {
	w, tickets, begun := advancing(t, nil, newBot())
	first := w.begin(begun, "pay")
	ticket := tickets.Issue(first, time.Hour)
	if got := want[advanceBody](w, 200, "", "POST", "/advance", advanceIn{Ticket: ticket}); got.State != engine.AdvanceWaiting || got.Status != cairn.RunSuspended || got.Ticket != "" || got.Step != 1 {
		t.Errorf("%+v", got)
	}
	call := want[pageBody[cairn.PendingCall]](w, 200, "a", "GET", "/inbox", nil).Items[0]
	want[any](w, 200, "a", "POST", "/submit-tool-result", map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID, "approval_id": call.ApprovalID, "approved": true})
	want[any](w, 202, "a", "POST", "/resume", map[string]any{"session_id": "s"})
	ticket = tickets.Issue(<-begun, time.Hour)
	got := want[advanceBody](w, 200, "", "POST", "/advance", advanceIn{Ticket: ticket})
	if got.State != engine.AdvanceMore || got.Ticket == "" || got.Step != 1 {
		t.Errorf("%+v", got)
	}
	want[problemBody](w, 401, "", "POST", "/sessions/s/advance", nil)
	want[problemBody](w, 404, "e", "POST", "/sessions/s/advance", nil)
	if got := want[advanceBody](w, 200, "a", "POST", "/sessions/s/advance", nil); got.State != engine.AdvanceEnded || got.Ticket != "" || got.Step != 2 {
		t.Errorf("%+v", got)
	}
	if got := want[advanceBody](w, 200, "", "POST", "/advance", advanceIn{Ticket: got.Ticket}); got.State != engine.AdvanceEnded || got.Status != cairn.RunCompleted {
		t.Errorf("%+v", got)
	}
}

// A request that cannot be served says why, and whether to repeat it.
func TestAdvanceRefusals(t *testing.T) {
	w, tickets, begun := advancing(t, nil, newBot())
	run := w.begin(begun, "hi")
	others, err := host.NewTickets(otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	unknown, later := run, run
	unknown.RunID, later.Step = "other", 9
	for name, c := range map[string]struct {
		status int
		code   string
		body   any
	}{
		"no ticket":              {400, string(cairn.ErrInvalid), advanceIn{}},
		"nothing":                {400, string(cairn.ErrInvalid), nil},
		"a long wait":            {400, string(cairn.ErrInvalid), advanceIn{Ticket: tickets.Issue(run, time.Hour), Wait: cairn.Duration(time.Hour)}},
		"a negative wait":        {400, string(cairn.ErrInvalid), advanceIn{Ticket: tickets.Issue(run, time.Hour), Wait: -1}},
		"a credential":           {400, string(cairn.ErrInvalid), map[string]any{"session_id": "s"}},
		"a wrong ticket":         {401, "unauthorized", advanceIn{Ticket: "x.y"}},
		"another server's":       {401, "unauthorized", advanceIn{Ticket: others.Issue(run, time.Hour)}},
		"an expired ticket":      {410, "ticket_expired", advanceIn{Ticket: tickets.Issue(run, -time.Second)}},
		"an unknown run":         {404, string(cairn.ErrNotFound), advanceIn{Ticket: tickets.Issue(unknown, time.Hour)}},
		"a step that is not yet": {503, string(cairn.ErrStoreBehind), advanceIn{Ticket: tickets.Issue(later, time.Hour)}},
		"a large body":           {413, string(cairn.ErrTooLarge), `{"ticket":"` + strings.Repeat("x", maxBody) + `"}`},
	} {
		if got := want[problemBody](w, c.status, "", "POST", "/advance", c.body); got.Code != c.code {
			t.Errorf("%s: %+v, want code %s", name, got, c.code)
		}
	}
	if row, err := w.eng.Session(t.Context(), "s"); err != nil || row.Step != 0 || row.Status != cairn.SessionActive {
		t.Errorf("a refused request has driven the run: %+v, error %v", row, err)
	}
	off := newWorld(t, nil)
	want[problemBody](off, 404, "a", "POST", "/advance", advanceIn{Ticket: tickets.Issue(run, time.Hour)})
}

// A request that has waited long enough says that there is more. While one waits, another is refused with a pause.
func TestAdvanceWaits(t *testing.T) {
	held, release := make(chan struct{}, 9), make(chan struct{})
	agent := newBot()
	agent.Model = scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		held <- struct{}{}
		<-release
		return scripted.Text("hello")
	})
	w, tickets, begun := advancing(t, func(a *Advance) { a.Wait = 50 * time.Millisecond }, agent)
	ticket := tickets.Issue(w.begin(begun, "hi"), time.Hour)
	got := want[advanceBody](w, 200, "", "POST", "/advance", advanceIn{Ticket: ticket})
	if got.State != engine.AdvanceMore || got.Step != 0 {
		t.Errorf("%+v", got)
	}
	<-held
	patient := advanceIn{got.Ticket, cairn.Duration(time.Minute)}
	done := make(chan []byte, 1)
	go func() {
		res, data := w.do("", "POST", "/advance", patient)
		for res.StatusCode == 409 { // the other request was first
			res, data = w.do("", "POST", "/advance", patient)
		}
		done <- data
	}()
	var res *http.Response
	testclock.Await(t, "a refusal", func() bool {
		res, _ = w.do("", "POST", "/advance", advanceIn{Ticket: ticket, Wait: cairn.Duration(time.Millisecond)})
		return res.StatusCode != 200
	})
	if n, _ := strconv.Atoi(res.Header.Get("Retry-After")); res.StatusCode != 409 || n < 1 {
		t.Errorf("the second request: status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
	close(release)
	if end := <-done; !strings.Contains(string(end), `"ended"`) || len(held) > 0 {
		t.Errorf("%s after %d more model calls", end, len(held))
	}
}

func TestAdvanceOptions(t *testing.T) {
	w := newWorld(t, nil)
	for _, a := range []*Advance{{TicketTTL: -1}, {Wait: -1}, {Wait: time.Hour}} {
		if _, err := New(w.eng, &Options{AllowUnauthenticated: true, Advance: a}); err == nil || cairn.AsError(err).Field != "Advance" {
			t.Errorf("%+v: error %v", a, err)
		}
	}
}
