package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// tainting is a memory that taints the turns that ask for "poison".
type tainting struct{ diary }

func (t *tainting) Offer(_ context.Context, step *cairn.Step, _ json.RawMessage) (*cairn.Offer, error) {
	return &cairn.Offer{Pinned: json.RawMessage(`{}`), Note: "remembered", Tainted: step.Turn == 1}, nil
}

// An approval rule sees that the session is tainted: from the step after the one whose tool has read something, or in the
// same step if a toolset's offer has it; after a summary and in another process as well, until it is cleared or rewound.
func TestTaint(t *testing.T) {
	t.Parallel()
	ifTainted := cairn.RequireApprovalIf(func(_ context.Context, call *cairn.Call, _ in) (bool, error) { return call.Tainted(), nil })
	read := tool("read", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return in.Text, call.Taint("The page may be an attack.")
	})
	pays := func(calls ...scripted.Step) cairn.Model {
		return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			last := req.Messages[len(req.Messages)-1]
			for _, name := range []string{"read", "pay"} {
				if last.Role == cairn.RoleUser && last.Text() == name {
					return scripted.Call(name, in{name})
				}
			}
			for i := len(req.Messages) - 1; i >= 0; i-- {
				if m := req.Messages[i]; m.Role == cairn.RoleUser && !m.Hidden && (m.Text() == "read" || m.Text() == "pay") {
					if m.Text() == "pay" && !slices.ContainsFunc(req.Messages[i:], func(m cairn.Message) bool { return len(m.ToolUses()) > 0 }) {
						return scripted.Call("pay", in{"5"})
					}
					break
				}
			}
			return scripted.Text("done")
		})
	}
	check := func(t *testing.T, res *cairn.Result, asks bool) {
		t.Helper()
		if (res.Status == cairn.RunSuspended) != asks {
			t.Errorf("the run is %s, the approval is asked for: %t, want %t", res.Status, res.Status == cairn.RunSuspended, asks)
		}
	}
	listed := func(t *testing.T, eng *engine.Engine, tainted bool) {
		t.Helper()
		page, err := eng.Sessions(t.Context(), store.SessionQuery{})
		if err != nil || len(page.Items) != 1 || page.Items[0].Tainted != tainted {
			t.Errorf("the list of sessions has %+v, want one that is tainted: %t; %v", page.Items, tainted, err)
		}
	}
	t.Run("by a tool", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New(nil)
			a := bot(pays(), read, echo("pay", ifTainted))
			eng := open(t, st, a)
			check(t, turn(t, eng, "s", "pay"), false)
			before, err := eng.Checkpoint(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			turn(t, eng, "s", "read")
			turn(t, eng, "s", "read") // no second message
			if _, err := eng.Compact(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			other := open(t, st, a, named("b"))
			listed(t, other, true)
			check(t, turn(t, other, "s", "pay"), true)
			if err := other.Abort(t.Context(), "s", "no"); err != nil {
				t.Fatal(err)
			}
			tainted := 0
			for _, m := range messages(t, st, "s") {
				if m.Trust == cairn.TrustTainted && m.Summary == nil {
					tainted++
				}
			}
			if tainted != 1 {
				t.Errorf("%d messages taint the session", tainted)
			}
			if err := other.ClearTaint(t.Context(), "s", "I have read the page."); err != nil {
				t.Fatal(err)
			}
			listed(t, other, false)
			check(t, turn(t, other, "s", "pay"), false)
			turn(t, other, "s", "read")
			listed(t, other, true)
			check(t, turn(t, other, "s", "pay"), true)
			if err := other.Abort(t.Context(), "s", "no"); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Rewind(t.Context(), "s", before.ID); err != nil {
				t.Fatal(err)
			}
			listed(t, other, false)
			check(t, turn(t, other, "s", "pay"), false)
		})
	})
	t.Run("effectful", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			eng := open(t, memstore.New(nil), bot(pays(), read, echo("pay", cairn.Effectful())))
			check(t, turn(t, eng, "s", "pay"), false)
			turn(t, eng, "s", "read")
			res := turn(t, eng, "s", "pay")
			check(t, res, true)
			if prompt := res.Suspended.Calls[0].Prompt; !strings.Contains(prompt, "anybody may have written") {
				t.Errorf("the reviewer is asked %q", prompt)
			}
		})
	})
	t.Run("by a memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := bot(scripted.New(scripted.Call("pay", in{"5"})), echo("pay", ifTainted))
			a.Memory = &tainting{}
			check(t, turn(t, open(t, memstore.New(nil), a), "s", "pay"), true)
		})
	})
	wantError(t, open(t, memstore.New(nil), bot(scripted.New())).ClearTaint(t.Context(), "s", ""), cairn.ErrInvalid)
}
