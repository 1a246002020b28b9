package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

type photoArgs struct {
	Of string `json:"of"`
}

type photo struct {
	URL string `json:"url"`
}

type amountArgs struct {
	Amount int `json:"amount"`
}

// otherAgents are agents that the command does not know.
func otherAgents() []*cairn.Agent {
	spend := func(_ context.Context, _ *cairn.Call, in amountArgs) (string, error) {
		return fmt.Sprint(in.Amount), nil
	}
	lender := &cairn.Agent{Name: "lender", Description: "Lends.", Model: scripted.New(scripted.Call("lend", amountArgs{9})),
		Tools: []cairn.Tool{cairn.Func("lend", "Lends.", spend, cairn.RequireApproval())}}
	return []*cairn.Agent{
		{Name: "desk", Model: scripted.New(scripted.Reply(scripted.Call("photo", photoArgs{"cups"}), scripted.Call("pay", amountArgs{5}))),
			Tools: []cairn.Tool{
				cairn.ClientTool[photoArgs, photo]("photo", "Takes a photo.", cairn.AssignTo(cairn.AnyReviewer, "ada", "bob"), cairn.WaitAtMost(time.Hour)),
				cairn.Func("pay", "Pays.", spend, cairn.RequireApproval(), cairn.AssignTo(cairn.AllReviewers, "ada", "bob")),
			}},
		{Name: "chief", Model: scripted.New(scripted.Call("lender", map[string]string{"input": "Lend 9."})), Tools: []cairn.Tool{cairn.SubAgent(lender)}},
	}
}

// waitElsewhere suspends two sessions of agents that the command does not know. It returns the ids of the calls by
// tool, and the sub-agent's session as CHILD.
func (b *bench) waitElsewhere(t *testing.T) map[string]string {
	t.Helper()
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	eng, err := engine.New(st, otherAgents(), &engine.Options{Now: b.now, NewID: b.newID})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	names := map[string]string{}
	for _, agent := range []string{"desk", "chief"} {
		run, err := eng.Execute(t.Context(), agent, agent, cairn.Text("go"), engine.WithUser("user of "+agent))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Status != cairn.RunSuspended {
			t.Fatal(res, err)
		}
		for _, c := range res.Suspended.Calls {
			names[strings.ToUpper(c.Tool)] = c.ID
		}
		for _, c := range res.Suspended.Children {
			names["CHILD"] = c.SessionID
		}
		b.advance(time.Minute)
	}
	return names
}

// TestOtherAgents plays the scripts in testdata/agents, which name calls by their tools.
func TestOtherAgents(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"inbox", "errors"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.names = b.waitElsewhere(t)
			wantScript(t, b, "testdata/agents/"+name+".txt")
		})
	}
}

// TestInboxPages lists calls page by page, and requests one by a prefix of two ids.
func TestInboxPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.waitElsewhere(t)
	var found []string
	for cursor := ""; ; {
		stdout, stderr, code := b.run("", "inbox", "list", "--json", "--limit", "1", "--cursor", cursor)
		var page store.Page[cairn.PendingCall]
		if err := json.Unmarshal([]byte(stdout), &page); code != cli.ExitOK || stderr != "" || err != nil || len(page.Items) != 1 {
			t.Fatalf("exit %d: %q, %v\n%s", code, stderr, err, stdout)
		}
		found = append(found, page.Items[0].ID)
		if cursor = page.Next; cursor == "" {
			break
		}
		_, stderr, _ = b.run("", "inbox", "list", "--limit", fmt.Sprint(len(found)))
		if want := "There are more: --cursor " + cursor + "\n"; stderr != want {
			t.Errorf("%q, want %q", stderr, want)
		}
	}
	if len(found) != 3 {
		t.Errorf("the pages have %q, want the calls %v", found, ids)
	}
	_, stderr, code := b.run("", "inbox", "show", "call_")
	if code != cli.ExitUsage || !strings.HasPrefix(stderr, `cairn: call: "call_" is ambiguous: it matches `) {
		t.Errorf("exit %d: %q", code, stderr)
	}
	stdout, _, code := b.run("", "inbox", "approve", "call_", "--json")
	if code != cli.ExitUsage || stdout != "{\n  \"outcome\": \"invalid\"\n}\n" {
		t.Errorf("exit %d: %s", code, stdout)
	}
	for _, id := range found {
		if !strings.Contains(stderr, id) {
			t.Errorf("%q does not name %s", stderr, id)
		}
		if stdout, _, code := b.run("", "inbox", "show", id[:len(id)-1]); code != cli.ExitOK || !strings.Contains(stdout, id) {
			t.Errorf("%s is not found by its beginning: exit %d", id, code)
		}
	}
}

// TestNobodyAnswersInTime lets the deadline of a refund pass: the refund is not made, and an answer is reported as
// late.
func TestNobodyAnswersInTime(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		b := newBench(t)
		b.run("Order 42 arrived broken\n", "demo")
		b.advance(24 * time.Hour)
		if stdout, _, _ := b.run("", "inbox", "list"); !strings.Contains(stdout, "2026-11-21 12:01:00 (passed)") {
			t.Errorf("the list does not say that the deadline passed:\n%s", stdout)
		}
		if late {
			for _, want := range []string{"Too late: the deadline of refund of session demo passed on 2026-11-21 12:01:00.", "refund of session demo was already closed by timeout on "} {
				stdout, stderr, code := b.run("", "inbox", "approve", "call_")
				if code != cli.ExitDecided || stderr != "" || !strings.Contains(stdout, want) {
					t.Errorf("exit %d: %q %q, want %q", code, stdout, stderr, want)
				}
			}
		}
		stdout, stderr, code := b.run("", "demo")
		if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "I could not refund order 42: nobody answered in time.") {
			t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
		}
		wantRefunds(t, b, 0)
	}
}

// TestSeveralCalls decides the calls of one step one at a time. The step is resumed after the last decision.
func TestSeveralCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, test := range []struct{ says, want string }{
		{"Orders 41, 45 and 47 never arrived\ny\n", "order 41 (Brass desk lamp, missing)"},
		{"n not the clock\n", "order 45 (Wall clock, missing)"},
		{"y\nthank you\n", "order 47 (Chess set, missing)"},
	} {
		stdout, stderr, code := b.run(test.says, "demo")
		if code != cli.ExitOK || stderr != "" || strings.Count(stdout, "Approve refund of ") != 1 || !strings.Contains(stdout, test.want) {
			t.Errorf("exit %d: %q\n%s\nwant %q", code, stderr, stdout, test.want)
		}
		if open := strings.Count(stdout, " inbox approve "); open != 2-i {
			t.Errorf("%d calls are left to be approved, want %d:\n%s", open, 2-i, stdout)
		}
	}
	wantRefunds(t, b, 2)
}
