package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// page is a browser's page with an EventSource: when it reconnects, it sends the last id that it has seen.
type page struct {
	t       *testing.T
	client  *http.Client // its connections are not those of other tests, which a server's Close cuts
	url     string
	lastID  string
	replies []reply
}

// reply is the text of a step.
type reply struct {
	run  string
	step int
	text string
}

// show handles an event as a page does.
func (p *page) show(ev cairn.Event) {
	switch ev.Type {
	case cairn.EventTextDelta:
		last := len(p.replies) - 1
		if last < 0 || p.replies[last].run != ev.RunID || p.replies[last].step != ev.Step {
			p.replies, last = append(p.replies, reply{run: ev.RunID, step: ev.Step}), last+1
		}
		p.replies[last].text += ev.Text
	case cairn.EventStepDiscarded:
		p.replies = slices.DeleteFunc(p.replies, func(r reply) bool { return r.run == ev.RunID && r.step >= ev.Step })
	}
}

// text returns the text that the page shows.
func (p *page) text() string {
	var all []string
	for _, r := range p.replies {
		all = append(all, r.text)
	}
	return strings.Join(all, "\n")
}

func open(t *testing.T, model cairn.Model) *page {
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "poet", Model: model}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(routes(eng))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = eng.Close(ctx)
		srv.Close()
	})
	return &page{t: t, client: srv.Client(), url: srv.URL + "/session-1"}
}

func (p *page) post(path string, form url.Values) {
	p.t.Helper()
	resp, err := p.client.PostForm(p.url+path, form)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("POST %s: %s", path, resp.Status)
	}
}

// connect follows the events until one satisfies until, and then disconnects.
func (p *page) connect(until func(cairn.Event) bool) cairn.Event {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/events", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", p.lastID)
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			p.lastID = value
		case "data":
			var ev cairn.Event
			if err := json.Unmarshal([]byte(value), &ev); err != nil {
				p.t.Fatalf("%s: %v", value, err)
			}
			p.show(ev)
			if until(ev) {
				return ev
			}
		}
	}
	p.t.Fatal("the stream ended")
	return cairn.Event{}
}

func TestPageThatConnectsAgainSeesEachWordOnce(t *testing.T) {
	t.Parallel()
	p := open(t, model)
	p.post("/say", url.Values{"text": {"A poem, please."}})
	connections := 0
	for ended := false; !ended; connections++ {
		ev := p.connect(func(ev cairn.Event) bool { return ev.Type == cairn.EventTextDelta || ev.Type == cairn.EventRunEnd })
		ended = ev.Type == cairn.EventRunEnd
	}
	if want := "Roses are red, violets are blue."; p.text() != want || connections < 2 {
		t.Errorf("with %d connections the page shows %q, want %q", connections, p.text(), want)
	}
}

// A reply that breaks off is removed, and the next attempt replaces it.
func TestPageTakesBackWhatWasDiscarded(t *testing.T) {
	t.Parallel()
	p := open(t, scripted.New(scripted.Reply(scripted.Text("Roses are "), scripted.Break()), scripted.Text("Violets are blue.")))
	p.post("/say", url.Values{"text": {"A poem, please."}})
	p.connect(func(ev cairn.Event) bool { return ev.Type == cairn.EventTextDelta })
	if !strings.HasPrefix(p.text(), "Roses") {
		t.Errorf("at first the page shows %q", p.text())
	}
	p.connect(func(ev cairn.Event) bool { return ev.Type == cairn.EventRunEnd })
	if p.text() != "Violets are blue." {
		t.Errorf("at last the page shows %q", p.text())
	}
}

// A discard removes the replies of its step and of later ones of the run, and may find none.
func TestPageTakesBackSeveralSteps(t *testing.T) {
	t.Parallel()
	p := &page{t: t}
	for _, ev := range []cairn.Event{
		{Type: cairn.EventTextDelta, RunID: "a", Step: 3, Text: "another run's"},
		{Type: cairn.EventTextDelta, RunID: "b", Step: 1, Text: "committed"},
		{Type: cairn.EventTextDelta, RunID: "b", Step: 2, Text: "void"},
		{Type: cairn.EventTextDelta, RunID: "b", Step: 3, Text: "void"},
		{Type: cairn.EventStepDiscarded, RunID: "b", Step: 2},
		{Type: cairn.EventStepDiscarded, RunID: "b", Step: 2},
		{Type: cairn.EventTextDelta, RunID: "b", Step: 2, Text: "again"},
		{Type: cairn.EventStepDiscarded, RunID: "b", Step: 3},
	} {
		p.show(ev)
	}
	if want := "another run's\ncommitted\nagain"; p.text() != want {
		t.Errorf("the page shows %q, want %q", p.text(), want)
	}
}

// A stream that fails in the middle is broken off, so that no page takes it for complete, and nothing is written after it.
func TestStreamThatFailsIsBrokenOff(t *testing.T) {
	t.Parallel()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "poet", Model: model}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	srv := httptest.NewUnstartedServer(routes(eng))
	srv.Config.ErrorLog = log.New(&complaints, "", 0)
	srv.Start()
	p := &page{t: t, client: srv.Client(), url: srv.URL + "/session-1"}
	p.post("/say", url.Values{"text": {"Once"}})
	res, err := p.client.Get(p.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && lines.Text() != "event: text_delta" {
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = eng.Close(ctx)
	for lines.Scan() {
	}
	srv.Close()
	if lines.Err() == nil || complaints.String() != "" {
		t.Errorf("it ends with %v, and the server logs %q", lines.Err(), complaints.String())
	}
}

func TestPageStopsTheRun(t *testing.T) {
	t.Parallel()
	p := open(t, model)
	p.post("/say", url.Values{"text": {"Once"}})
	p.connect(func(ev cairn.Event) bool { return ev.Type == cairn.EventTextDelta })
	p.post("/stop", nil)
	end := p.connect(func(ev cairn.Event) bool { return ev.Type == cairn.EventRunEnd })
	if end.Status != cairn.RunInterrupted || end.Text != "the user pressed stop" || p.text() != "Upon" {
		t.Errorf("the run is %s: %q, and the page shows %q", end.Status, end.Text, p.text())
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	p := open(t, model)
	for path, want := range map[string]int{"/events": http.StatusNotFound, "/events?after=x": http.StatusBadRequest} {
		resp, err := p.client.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, resp.Status, want)
		}
	}
}
