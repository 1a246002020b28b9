package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/console"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// Chromium opens pages of the console over 100,000 sessions on SQLite, one of which has 10,000 messages. The figures are the
// times from the click on a link to the first row that is drawn, and how many elements the page has while it is scrolled.
func BenchmarkConsolePages(b *testing.B) {
	const sessions, turns, rounds = 100_000, 5000, 20
	st, err := sqlitestore.Open(filepath.Join(b.TempDir(), "cairn.db"), &sqlitestore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	commit := func(id string, c *driver.Commit) {
		c.Guard, c.InitialState, c.Create.Agent, c.Status = driver.Guard{Idle: true}, json.RawMessage(`{}`), "support", cairn.SessionCompleted
		if _, err := st.Commit(b.Context(), id, c); err != nil {
			b.Fatal(err)
		}
	}
	for n := range sessions {
		commit(fmt.Sprintf("session-%d", n), &driver.Commit{Create: &cairn.Session{UserID: fmt.Sprintf("user-%d", n%1000), Title: fmt.Sprintf("Order %d arrived broken", n)}})
	}
	commit("long", &driver.Commit{Create: &cairn.Session{UserID: "ada"}, Messages: conversation(turns)})

	model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("Hello.") })
	eng, err := engine.New(st, []*cairn.Agent{{Name: "support", Model: model}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(context.WithoutCancel(b.Context()))
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, RequestsPerMinute: -1, StreamsPerUser: -1})
	if err != nil {
		b.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/console/", http.StripPrefix("/console", console.New(nil)))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	defer srv.CloseClientConnections()
	defer h.Drain()

	for b.Loop() {
		var found map[string]map[string]float64
		out := testenv.Node(b, "testdata/pages.mjs", testenv.Chromium(b), srv.URL, strconv.Itoa(rounds))
		if err := json.Unmarshal(out, &found); err != nil {
			b.Fatal(err)
		}
		for page, figures := range found {
			for unit, figure := range figures {
				b.ReportMetric(figure, page+"-"+unit)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// conversation returns the messages of a number of turns.
func conversation(turns int) (list []cairn.Message) {
	at := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	for n := range turns {
		run := fmt.Sprintf("run-%d", n)
		list = append(list,
			cairn.Message{ID: fmt.Sprintf("asked-%d", n), RunID: run, CreatedAt: at, Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart(fmt.Sprintf("Where is order %d?", n))}},
			cairn.Message{ID: fmt.Sprintf("said-%d", n), RunID: run, CreatedAt: at, Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(fmt.Sprintf("Order %d is on its way, and arrives tomorrow.", n))}})
	}
	return list
}
