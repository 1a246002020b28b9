package pgstore

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

var (
	viewHeading = regexp.MustCompile("(?m)^### `(v1_[a-z]+)`$")
	columnNames = regexp.MustCompile("`([a-z_]+)`")
)

// documentedColumns returns the columns that docs/USAGE.md describes, by view.
func documentedColumns(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/USAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	views := map[string][]string{}
	parts := viewHeading.FindAllSubmatchIndex(text, -1)
	for i, part := range parts {
		end := len(text)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		view := string(text[part[2]:part[3]])
		for line := range strings.Lines(string(text[part[1]:end])) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				for _, name := range columnNames.FindAllStringSubmatch(cells[1], -1) {
					views[view] = append(views[view], name[1])
				}
			}
		}
		slices.Sort(views[view])
	}
	return views
}

// The views for analysts have exactly the columns that the documentation names, and say what was stored.
func TestViews(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	has := map[string][]string{}
	read := func(text string, each func(pgx.Rows) error) {
		t.Helper()
		err := s.try(t.Context(), "read views", reads, func(ctx context.Context, c *conn) error { return c.query(ctx, text, each) })
		if err != nil {
			t.Fatal(err)
		}
	}
	read(`SELECT c.relname::text, a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = '`+s.opts.Schema+`' AND c.relkind = 'v' AND a.attnum > 0 ORDER BY 1, 2`, func(rows pgx.Rows) error {
		var view, column string
		err := rows.Scan(&view, &column)
		has[view] = append(has[view], column)
		return err
	})
	documented := documentedColumns(t)
	for view, columns := range has {
		slices.Sort(columns)
		if !slices.Equal(columns, documented[view]) {
			t.Errorf("%s has the columns\n%v\nthe documentation\n%v", view, columns, documented[view])
		}
	}
	if len(has) != 6 || len(documented) != 6 {
		t.Errorf("there are %d views, %d are documented", len(has), len(documented))
	}

	ctx := t.Context()
	commit := func(c *driver.Commit) {
		t.Helper()
		if _, err := s.Commit(ctx, "acme::s", c); err != nil {
			t.Fatal(err)
		}
	}
	commit(&driver.Commit{Create: &cairn.Session{Agent: "bot", UserID: "acme::ann", Tags: []string{"x"}}, Status: cairn.SessionActive,
		StartRun: &cairn.Run{ID: "run", Agent: "bot", Status: cairn.RunRunning}})
	answer := &cairn.CallAnswer{Kind: cairn.DecisionApproved, Value: []byte(`{"n":2}`)}
	step := &driver.Commit{Step: 1, Messages: []cairn.Message{cairn.User(cairn.TextPart("hi"))}, Checkpoint: &cairn.Checkpoint{ID: "c", RunID: "run", StepID: "run/1", Step: 1},
		Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Tool: "pay", Kind: cairn.CallApproval}, Status: cairn.CallAnswered, Answer: answer,
			Trail: []cairn.Decision{{Kind: cairn.DecisionApproved, Reviewer: "acme::rita", Notes: "less"}}}}}}
	step.Spend(cairn.UsageEntry{Kind: cairn.UsageModel, Name: "test:m", Duration: 1500_000_000,
		Usage: cairn.Usage{InputTokens: 10, CachedTokens: 4, OutputTokens: 2, DiscardedCalls: 1, PricedCalls: 1, CostNanos: 2_500_000_000}},
		cairn.UsageEntry{Kind: cairn.UsageCustom, Name: "pages", Usage: cairn.Usage{Custom: map[string]float64{"pages": 1.5}}})
	commit(step)
	commit(&driver.Commit{EndRun: &cairn.Run{ID: "run", Status: cairn.RunCompleted, Reason: cairn.ReasonReply, Steps: 1, Usage: cairn.Usage{InputTokens: 10}}, Status: cairn.SessionIdle})
	for text, want := range map[string]string{
		`SELECT concat_ws(' ', session_id, tenant, user_id, agent, tags, status, input_tokens, output_tokens, round(cost, 2)) FROM {schema}.v1_sessions`:                                                                               "acme::s acme acme::ann bot {x} idle 10 2 2.50",
		`SELECT concat_ws(' ', session_id, turn, run_id, status, reason, ended_at IS NOT NULL, steps, input_tokens) FROM {schema}.v1_turns`:                                                                                            "acme::s 1 run completed reply t 1 10",
		`SELECT concat_ws(' ', session_id, turn, run_id, step, messages) FROM {schema}.v1_steps`:                                                                                                                                       "acme::s 1 run 1 1",
		`SELECT concat_ws(' ', root_id, call_id, session_id, user_id, tool, kind, status) FROM {schema}.v1_calls`:                                                                                                                      "acme::s call acme::s acme::ann pay approval answered",
		`SELECT concat_ws(' ', call_id, number, decision, reviewer, notes, edited) FROM {schema}.v1_decisions`:                                                                                                                         "call 1 approved acme::rita less t",
		`SELECT concat_ws(' ', tenant, user_id, session_id, run_id, step, tags, name, round(seconds, 1), discarded, model_calls, input_tokens, cached_tokens, round(cost, 1), cost_known) FROM {schema}.v1_usage WHERE kind = 'model'`: "acme acme::ann acme::s run 1 {x} test:m 1.5 t 1 10 4 2.5 t",
		`SELECT concat_ws(' ', name, amount, model_calls) FROM {schema}.v1_usage WHERE kind = 'custom'`:                                                                                                                                "pages 1.5 0",
	} {
		var got []string
		read(text, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			got = append(got, line)
			return err
		})
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s\nyields %q, want %q", text, got, want)
		}
	}
}
