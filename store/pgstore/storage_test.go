package pgstore

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/jackc/pgx/v5"
)

// stored returns the bytes of each table with its indexes after a VACUUM. The one head and the one log have as many
// dead versions as there were commits and appends since the last, so their tables are written anew.
func stored(t *testing.T, url string, s *Store) map[string]int64 {
	t.Helper()
	if err := execAt(t, url, "SET search_path TO "+s.opts.Schema, "VACUUM", "VACUUM FULL heads, logs"); err != nil {
		t.Fatal(err)
	}
	rows, err := s.pool.Query(t.Context(), `SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = $1::regnamespace`, s.opts.Schema)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	var name string
	var size int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error { out[name] = size; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStorageOfAConversation makes turns of one session, each of two steps with a tool between them, and compares the
// space they take with the text in them. It has a database of its own, since what other tests' transactions may still
// see would be stored too.
func TestStorageOfAConversation(t *testing.T) {
	t.Parallel()
	server := testenv.FastPostgres(t)
	if err := execAt(t, server, "CREATE DATABASE conversation"); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server, "/postgres?", "/conversation?", 1)
	s := openAt(t, url, &Options{Schema: newSchema()})
	const turns, question, result, answer = 2500, 150, 1000, 200
	n := 0 // no two texts are of one length, from half of the average to one and a half
	said := func(average int) string {
		n++
		length := average/2 + average*(n*61%101)/100
		return strings.Repeat("All that there is to say. ", length/26+1)[:length]
	}
	type input struct{}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.Func("look_up", "Look it up.",
		func(context.Context, *cairn.Call, input) (string, error) { return said(result), nil })},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			if r.Messages[len(r.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text(said(answer))
			}
			return scripted.Call("look_up", input{})
		})}
	eng := must(engine.New(s, []*cairn.Agent{agent}, nil))
	t.Cleanup(func() { eng.Close(context.Background()) })
	turn := func() {
		run, err := eng.Execute(t.Context(), "session", "bot", cairn.Text(said(question)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	before := stored(t, url, s)
	for i := range turns {
		if turn(); i%100 == 0 { // as the server does by itself when there is more
			if err := execAt(t, url, "VACUUM "+s.opts.Schema+".runs"); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := stored(t, url, s)
	var session, all float64
	for name, size := range after {
		grown := float64(size-before[name]) / (turns * (question + result + answer))
		if all += grown; name != "events" && name != "logs" {
			session += grown
		}
		if grown > 0.01 {
			t.Logf("%.2f bytes of %s per byte of conversation", grown, name)
		}
	}
	t.Logf("%.2f bytes per byte of conversation, and %.2f with the event log", session, all)
	// A machine that is busy with other tests appends more often, fewer events at once: the layout does not cause that.
	var batches float64
	if err := s.pool.QueryRow(t.Context(), s.texts.of("SELECT count(*) FROM {schema}.events")).Scan(&batches); err != nil {
		t.Fatal(err)
	}
	all -= max(0, batches/turns-5.1) * 150 / (question + result + answer)
	if session > 2.5 || all > 4 {
		t.Errorf("%.2f bytes are stored per byte of conversation, at most 2.5 are allowed, and with the event log %.2f, at most 4",
			session, all)
	}
}
