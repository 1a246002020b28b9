package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// A receipt says what is stored, whatever fails before and after that.
func TestReceiptOfAnAnswerWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	down := cairn.Errorf(cairn.ErrUnavailable, "read only")
	failing := func(what string) func(context.Context, string) error {
		return func(_ context.Context, op string) error {
			if op == what {
				return down
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		fail   func(*tap)
		stored bool
	}{
		"the call cannot be read": {func(st *tap) { st.stepIn(failing("Calls"), nil) }, false},
		"the write is refused":    {func(st *tap) { st.stepIn(failing("Commit"), nil) }, false},
		"the write's answer is lost": {func(st *tap) {
			st.stepIn(nil, failing("Commit"))
		}, true},
		"nothing can be read after the write": {func(st *tap) {
			st.stepIn(nil, func(_ context.Context, op string) error {
				if op == "Commit" {
					st.stepIn(failing("Calls"), nil)
				}
				return nil
			})
		}, true},
		"the log fails": {func(st *tap) {
			st.log.stepIn(func(context.Context, []cairn.Event) error { return down })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			eng := open(t, st, bot(scripted.New(scripted.Call("pay", in{"1"})), echo("pay", cairn.RequireApproval())))
			call := turn(t, eng, "s", "go").Suspended.Calls[0]
			c.fail(st)
			receipt, err := eng.Submit(t.Context(), "s", cairn.Approve(call))
			st.stepIn(nil, nil)
			stored, failed := driver.FindCall(t.Context(), st, "s", call.ID)
			if failed != nil || (stored.Status == cairn.CallAnswered) != c.stored {
				t.Fatalf("the call is %s, %v", stored.Status, failed)
			}
			if !c.stored {
				wantError(t, err, cairn.ErrUnavailable)
				if receipt.Outcome != "" || receipt.Call != nil || receipt.Ready {
					t.Errorf("the receipt is %+v", receipt)
				}
				return
			}
			if err != nil || receipt.Outcome != cairn.OutcomeAccepted || receipt.Call.Status != cairn.CallAnswered || !receipt.Ready {
				t.Errorf("the receipt is %+v, %v", receipt, err)
			}
		})
	}
}
