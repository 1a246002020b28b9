package cairntest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cairntest"
	"github.com/cairn-agents/cairn/store/driver"
)

func ExampleNewCall() {
	call := cairntest.NewCall(till{Paid: []int{3}})
	answer, err := pay(context.Background(), call.Call, payment{Cents: 5})
	fmt.Println(answer, err)
	state, err := cairn.State[till](call)
	fmt.Println(state.Paid, err)
	for _, op := range call.Ops() {
		fmt.Printf("%s %s %s\n", op.Kind, op.Path, op.Items)
	}
	// Output:
	// paid <nil>
	// [3 5] <nil>
	// append /paid [5]
}

func TestCallRecordsWhatIsDoneWithIt(t *testing.T) {
	t.Parallel()
	call := cairntest.NewCall(nil)
	call.UserID, call.SessionID = "ann", "mine"
	tool := cairn.Func("work", "Works.", func(_ context.Context, c *cairn.Call, in payment) (string, error) {
		c.Checkpoint()
		c.RecordUsage("pages", 2)
		c.RecordUsage("pages", 1)
		return c.UserID + " " + c.Tool, cmp.Or(driver.Exec(c, "PostgreSQL", "INSERT INTO paid VALUES ($1)", in.Cents), c.Emit("progress", in), c.AddContext("paid"), c.Attach(cairn.File{MediaType: "image/png", Data: []byte("x")}), c.Set([]string{"by"}, "card"))
	})
	out, err := call.Run(t.Context(), tool, payment{4})
	if err != nil || string(out) != `"ann work"` {
		t.Errorf("the result is %s, %v", out, err)
	}
	if ev := call.Events(); len(ev) != 1 || ev[0].Name != "progress" || string(ev[0].Data) != `{"cents":4}` {
		t.Errorf("the events are %+v", ev)
	}
	if got := call.Context(); !slices.Equal(got, []string{"paid"}) {
		t.Errorf("the context is %q", got)
	}
	if got := call.Files(); len(got) != 1 || string(got[0].Data) != "x" {
		t.Errorf("the files are %+v", got)
	}
	if call.Usage()["pages"] != 3 || !call.Checkpointed() || string(call.Input) != `{"cents":4}` {
		t.Errorf("usage %v, checkpointed %t, input %s", call.Usage(), call.Checkpointed(), call.Input)
	}
	if got := call.Statements(); len(got) != 1 || got[0].Tool != "work" || !slices.Equal(got[0].Args, driver.Args{int64(4)}) {
		t.Errorf("the statements are %+v", got)
	}
	if state, err := cairn.State[map[string]string](call); err != nil || state["by"] != "card" {
		t.Errorf("the state is %v, %v", state, err)
	}
}

func TestCallRunsWhatTheEngineWouldRun(t *testing.T) {
	t.Parallel()
	call := cairntest.NewCall(struct{}{})
	tool := cairn.Func("pay", "Pays.", pay)
	if _, err := call.Run(t.Context(), tool, payment{0}); cairn.AsError(err).Code != cairn.ErrArguments || len(call.Ops()) != 0 {
		t.Errorf("a violation of the schema: %v, and %d writes", err, len(call.Ops()))
	}
	if _, err := call.Run(t.Context(), cairn.ClientTool[payment, string]("ask", "Asks."), payment{1}); cairn.AsError(err).Code != cairn.ErrInvalid {
		t.Errorf("a tool that is executed elsewhere: %v", err)
	}
}

func TestNewCallRefusesWhatIsNoState(t *testing.T) {
	t.Parallel()
	for _, state := range []any{"text", []int{1}, make(chan int)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a %T was taken as a state", state)
				}
			}()
			cairntest.NewCall(state)
		}()
	}
}
