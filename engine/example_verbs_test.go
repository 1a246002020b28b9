package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// twoTurns returns an engine with a session of two turns.
func twoTurns(ctx context.Context) *engine.Engine {
	model := scripted.New(scripted.Text("Once upon a time."), scripted.Text("The end."), scripted.Text("And then a dragon came."))
	agent := &cairn.Agent{Name: "storyteller", Model: model}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		panic(err)
	}
	for _, text := range []string{"Begin.", "Go on."} {
		run, err := eng.Execute(ctx, "story", "storyteller", cairn.Text(text))
		if err != nil {
			panic(err)
		}
		if _, err := run.Wait(ctx); err != nil {
			panic(err)
		}
	}
	return eng
}

func ExampleEngine_Branch() {
	ctx := context.Background()
	eng := twoTurns(ctx)
	defer eng.Close(ctx)

	// Another session begins with the first question and its answer.
	branch, err := eng.Branch(ctx, "story", "other-story", engine.AtMessage(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(branch.ID, branch.MessageCount)
	run, err := eng.Execute(ctx, "other-story", "storyteller", cairn.Text("Go on differently."))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, _ := run.Wait(ctx)
	fmt.Println(res.Text)
	// Output:
	// other-story 2
	// And then a dragon came.
}

func ExampleEngine_Rewind() {
	ctx := context.Background()
	eng := twoTurns(ctx)
	defer eng.Close(ctx)

	page, err := eng.Checkpoints(ctx, "story", store.PageQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	first := page.Items[0] // the end of the first turn
	row, err := eng.Rewind(ctx, "story", first.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Items), row.MessageCount)
	// Output:
	// 2 2
}

func ExampleEngine_Events() {
	ctx := context.Background()
	eng := twoTurns(ctx)
	defer eng.Close(ctx)

	// From the beginning: first what has happened, then what happens, until ctx is done. The loop may end when it likes.
	turns := 0
	for ev, err := range eng.Events(ctx, "story", cairn.Cursor{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev.Type {
		case cairn.EventTextDelta: // a piece of any length
			fmt.Print(ev.Text)
		case cairn.EventRunEnd:
			fmt.Println()
			turns++
		}
		if turns == 2 {
			break
		}
	}
	// Output:
	// Once upon a time.
	// The end.
}

func ExampleEngine_Inbox() {
	ctx := context.Background()
	pay := cairn.Func("pay", "Pays a customer back.", func(_ context.Context, _ *cairn.Call, in payment) (string, error) {
		return fmt.Sprintf("paid %d cents", in.Cents), nil
	}, cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"))
	model := scripted.New(scripted.Call("pay", payment{42, 9900}), scripted.Text("Done."))
	agent := &cairn.Agent{Name: "support", Model: model, Tools: []cairn.Tool{pay}}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(ctx)
	run, _ := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."), engine.WithUser("eve"))
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// The open calls of all sessions that ann may answer, oldest first.
	page, err := eng.Inbox(ctx, store.CallQuery{Reviewer: "ann", Statuses: []cairn.CallStatus{cairn.CallOpen}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, call := range page.Items {
		fmt.Println(call.UserID, call.Tool, string(call.Input))
	}
	// Output:
	// eve pay {"order":42,"cents":9900}
}

func ExampleEngine_Serve() {
	ctx, cancel := context.WithCancel(context.Background())
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("Hello."))}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)

	// A worker takes over what other processes left, resumes what was answered, and enforces deadlines. When ctx is done,
	// for instance by a signal, Serve gives the runs of this process time to end, and closes the engine.
	served := make(chan error, 1)
	go func() { served <- eng.Serve(ctx) }()
	run, _ := eng.Execute(context.Background(), "session-1", "support", cairn.Text("Hi."))
	res, _ := run.Wait(context.Background())
	fmt.Println(res.Text)
	cancel()
	fmt.Println(<-served)
	// Output:
	// Hello.
	// <nil>
}

func ExampleUpdateState() {
	type orders struct {
		Refunded []int `json:"refunded"`
	}
	ctx := context.Background()
	agent := &cairn.Agent{Name: "support", Model: scripted.New(), State: cairn.StateOf[orders]()}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(ctx)
	if _, err := eng.Create(ctx, "session-1", "support"); err != nil {
		fmt.Println(err)
		return
	}

	// The function may run again if another process has changed the state meanwhile.
	_, err := engine.UpdateState(ctx, eng, "session-1", func(s *orders) error {
		s.Refunded = append(s.Refunded, 42)
		return nil
	})
	state, _ := engine.StateAs[orders](ctx, eng, "session-1")
	fmt.Println(state.Refunded, err)
	// Output:
	// [42] <nil>
}

func ExampleEngine_Execute() {
	ctx := context.Background()
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("Hello, Ann."))}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(ctx)

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Hi, I am Ann."))
	if err != nil {
		fmt.Println(err)
		return
	}
	for text, err := range run.Text(ctx) { // as the model writes it
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(text)
	}
	fmt.Println()
	res, err := run.Wait(ctx)
	fmt.Println(res.Status, res.Steps, err)
	// Output:
	// Hello, Ann.
	// completed 1 <nil>
}
