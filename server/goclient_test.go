package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// replies returns an agent that says the name of the model and what the user said. "pay" needs an approval; "wait"
// takes until gate is closed, and "break" breaks off its first reply.
func replies(gate chan struct{}) *cairn.Agent {
	pay := cairn.Func("pay", "Pays.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "paid", nil }, cairn.RequireApproval())
	broken := false
	model := func(name string) cairn.Model {
		return scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			last := r.Messages[len(r.Messages)-1]
			switch text := last.Text(); {
			case text == "pay":
				return scripted.Call("pay", nil)
			case text == "wait":
				return scripted.Reply(scripted.Text("Waiting. "), scripted.Gate(gate), scripted.Text("Done."))
			case text == "break" && !broken:
				broken = true
				return scripted.Reply(scripted.Text("Half a"), scripted.Break())
			case strings.HasPrefix(text, "fail") && name == "own":
				return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "no"))
			default:
				return scripted.Text(name + ": " + text)
			}
		})
	}
	return &cairn.Agent{Name: "bot", Model: model("own"), Models: map[string]cairn.Model{"deep": model("deep")}, Tools: []cairn.Tool{pay}}
}

// say starts a turn and waits for its outcome.
func (c *callee) say(t client.Turn) *cairn.Result {
	c.t.Helper()
	run, err := c.client.Start(c.t.Context(), t)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.client.Wait(c.t.Context(), run.SessionID, run.RunID)
	if res == nil {
		c.t.Fatal(err)
	}
	return res
}

// The text of a run comes as the engine's does: a discarded reply is void, and the rest is the transcript's.
func TestClientText(t *testing.T) {
	c := newCallee(t, replies(nil))
	run, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "break"}})
	if err != nil {
		t.Fatal(err)
	}
	text, discarded := "", 0
	for piece, err := range c.client.Text(t.Context(), "s", run.RunID) {
		if err != nil {
			t.Fatal(err)
		}
		if piece.Discarded {
			discarded++
			text = ""
		}
		text += piece.Delta
	}
	if text != "own: break" || discarded != 1 {
		t.Errorf("got %q with %d discarded", text, discarded)
	}
}

func TestClientWait(t *testing.T) {
	c := newCallee(t, replies(nil))
	if res := c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}}); res.Status != cairn.RunCompleted || res.Text != "own: hi" || res.Turn != 1 {
		t.Errorf("got %+v", res)
	}
	if res := c.say(client.Turn{SessionID: "s", Input: client.UserMessage{Text: "pay"}}); res.Status != cairn.RunSuspended || len(res.Suspended.Calls) != 1 {
		t.Errorf("got %+v", res)
	}
	run, err := c.client.Start(t.Context(), client.Turn{SessionID: "f", Agent: "bot", Input: client.UserMessage{Text: "fail"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.client.Wait(t.Context(), "f", run.RunID)
	var failed *cairn.Error
	if res == nil || res.Status != cairn.RunFailed || !errors.As(err, &failed) || failed.Code != cairn.ErrModelRequest {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := c.client.Wait(t.Context(), "f", "no-such-run"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("without a run: %v", err)
	}
}

func TestClientSelectsModels(t *testing.T) {
	c := newCallee(t, replies(nil))
	if res := c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "hi"}, Model: "deep"}); res.Text != "deep: hi" {
		t.Errorf("got %+v", res)
	}
	c.say(client.Turn{SessionID: "f", Agent: "bot", Input: client.UserMessage{Text: "fail"}})
	run, err := c.client.Retry(t.Context(), "f", client.WithModel("deep"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := c.client.Wait(t.Context(), "f", run.RunID); err != nil || res.Text != "deep: fail" {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := c.client.Retry(t.Context(), "f", client.FromCheckpoint("x")); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a retry from a checkpoint: %v", err)
	}
}

func TestClientBranchesAndRewinds(t *testing.T) {
	c := newCallee(t, replies(nil))
	for _, text := range []string{"one", "two"} {
		c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: text}})
	}
	list, err := c.client.Checkpoints(t.Context(), "s", false, 0, "")
	if err != nil || len(list.Items) < 2 {
		t.Fatal(list, err)
	}
	first := list.Items[0].ID
	branch, err := c.client.Branch(t.Context(), "s", client.Branching{SessionID: "b", Messages: new(2)})
	if err != nil || branch.ID != "b" || branch.MessageCount != 2 {
		t.Errorf("the branch is %+v, %v", branch, err)
	}
	back, err := c.client.Rewind(t.Context(), "s", first)
	if err != nil || back.CheckpointID != first || back.MessageCount != list.Items[0].MessageCount {
		t.Errorf("the session is %+v, %v", back, err)
	}
	if made, err := c.client.Checkpoint(t.Context(), "b"); err != nil || made.MessageCount != 2 {
		t.Errorf("the checkpoint is %+v, %v", made, err)
	}
	if _, err := c.client.Rewind(t.Context(), "s", "no-such-checkpoint"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("to no checkpoint: %v", err)
	}
}

func TestClientQueue(t *testing.T) {
	gate := make(chan struct{})
	c := newCallee(t, replies(gate))
	running, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "wait"}})
	if err != nil {
		t.Fatal(err)
	}
	var queued []string
	for _, text := range []string{"one", "two"} {
		run, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Input: client.UserMessage{Text: text}, Unready: client.Unready{OnBusy: "enqueue"}})
		if err != nil || run.Turn != 0 {
			t.Fatal(run, err)
		}
		queued = append(queued, run.RunID)
	}
	list, err := c.client.Queue(t.Context(), "s")
	if err != nil || len(list) != 2 || list[0].ID != queued[0] || list[1].Messages[0].Text() != "two" || list[0].At.IsZero() {
		t.Errorf("queued are %+v, %v", list, err)
	}
	if err := c.client.Dequeue(t.Context(), "s", queued[0]); err != nil {
		t.Error(err)
	}
	if err := c.client.Dequeue(t.Context(), "s", queued[0]); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	second := make(chan *cairn.Result)
	go func() {
		res, err := c.client.Wait(t.Context(), "s", queued[1])
		if err != nil {
			t.Error(err)
		}
		second <- res
	}()
	close(gate)
	if res, err := c.client.Wait(t.Context(), "s", running.RunID); err != nil || res.Text != "Waiting. Done." {
		t.Errorf("got %+v, %v", res, err)
	}
	if res := <-second; res == nil || res.Text != "own: two" {
		t.Errorf("the queued turn came to %+v", res)
	}
	if _, err := c.client.Wait(t.Context(), "s", queued[0]); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the turn that was removed: %v", err)
	}
}

// between is a transport that does something before the first request of a path.
type between struct {
	path string
	do   func()
	once sync.Once
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, b.path) {
		b.once.Do(b.do)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A queued turn begins after the client has looked for its run, and before it looks into the queue.
func TestQueuedTurnBeginsBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	c := newCallee(t, replies(gate))
	running, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "wait"}})
	if err != nil {
		t.Fatal(err)
	}
	queued, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Input: client.UserMessage{Text: "two"}, Unready: client.Unready{OnBusy: "enqueue"}})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := client.New(c.url, &client.Options{Token: calleeToken, HTTP: &http.Client{Transport: &between{path: "/queue", do: func() {
		close(gate)
		for _, id := range []string{running.RunID, queued.RunID} {
			if _, err := c.client.Wait(t.Context(), "s", id); err != nil {
				t.Error(err)
			}
		}
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := slow.Wait(t.Context(), "s", queued.RunID); err != nil || res.Text != "own: two" {
		t.Errorf("the queued turn came to %+v, %v", res, err)
	}
}

func TestClientClaims(t *testing.T) {
	c := newCallee(t, replies(nil))
	id := c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "pay"}}).Suspended.Calls[0].ID
	call, err := c.client.Claim(t.Context(), "s", id, "", 90*time.Second)
	if err != nil || call.ClaimedBy != c.user || time.Until(call.ClaimedUntil) > 2*time.Minute {
		t.Errorf("got %+v, %v", call, err)
	}
	if call, err = c.client.Call(t.Context(), "s", id); err != nil || call.ClaimedBy != c.user {
		t.Errorf("got %+v, %v", call, err)
	}
	if call, err = c.client.Release(t.Context(), "s", id, ""); err != nil || call.ClaimedBy != "" {
		t.Errorf("got %+v, %v", call, err)
	}
}

// A file of a user's message goes to the model as its bytes, and can be read back.
func TestClientSendsFiles(t *testing.T) {
	c := newCallee(t, replies(nil))
	file, err := client.NewAttachment(&cairn.File{Name: "a.png", MediaType: "image/png", Data: []byte("a tree")})
	if err != nil {
		t.Fatal(err)
	}
	c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "look", Files: []client.Attachment{file}}})
	if got, err := c.client.File(t.Context(), "s", 0, "", 0); err != nil || string(got.Data) != "a tree" || got.Name != "a.png" || got.MediaType != "image/png" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := client.NewAttachment(&cairn.File{Name: "a.png"}); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a file of nothing: %v", err)
	}
}

// A user with as many turns under way as are allowed starts no further one; a turn of a session that runs is queued.
func TestRunsPerUser(t *testing.T) {
	gate := make(chan struct{})
	c := newCallee(t, replies(gate))
	c.runs = 2
	c.serve(replies(gate))
	if _, err := c.eng.Create(t.Context(), "other", "bot", engine.WithUser(c.user)); err != nil {
		t.Fatal(err)
	}
	var last *client.Started
	for _, id := range []string{"a", "b"} {
		var err error
		if last, err = c.client.Start(t.Context(), client.Turn{SessionID: id, Agent: "bot", Input: client.UserMessage{Text: "wait"}}); err != nil {
			t.Fatal(err)
		}
	}
	third := client.Turn{SessionID: "c", Agent: "bot", Input: client.UserMessage{Text: "hi"}}
	_, err := c.client.Start(t.Context(), third)
	var refused *cairn.Error
	if !errors.As(err, &refused) || refused.Code != cairn.ErrRateLimited || !strings.Contains(err.Error(), "2 turns under way") || refused.RetryAfter != cairn.Duration(time.Second) {
		t.Errorf("a third turn: %v", err)
	}
	if _, err := c.client.Session(t.Context(), "c"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the refused turn has a session: %v", err)
	}
	if _, err := c.client.Retry(t.Context(), "other"); !errors.As(err, &refused) || refused.Code != cairn.ErrRateLimited {
		t.Errorf("a retry: %v", err)
	}
	if run, err := c.client.Start(t.Context(), client.Turn{SessionID: "a", Input: client.UserMessage{Text: "hi"}, Unready: client.Unready{OnBusy: "enqueue"}}); err != nil || run.Turn != 0 {
		t.Errorf("a queued turn: %+v, %v", run, err)
	}
	close(gate)
	if _, err := c.client.Wait(t.Context(), "b", last.RunID); err != nil {
		t.Fatal(err)
	}
	if res := c.say(third); res.Status != cairn.RunCompleted {
		t.Errorf("once a turn has ended: %+v", res)
	}
}

// A turn in place of an earlier one is begun with the copy of what it replaces.
func TestClientReplacesATurn(t *testing.T) {
	c := newCallee(t, replies(nil))
	at := func(n int) *int { return &n }
	c.say(client.Turn{SessionID: "s", Agent: "bot", Input: client.UserMessage{Text: "one"}})
	c.say(client.Turn{SessionID: "s", Input: client.UserMessage{Text: "two"}})
	if res := c.say(client.Turn{SessionID: "s", Input: client.UserMessage{Text: "other"}, FromMessage: at(2), KeepReplaced: true}); res.Text != "own: other" {
		t.Errorf("it answers %q", res.Text)
	}
	texts := func(id string) (all string) {
		list, err := c.client.Messages(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			all += m.Text() + "; "
		}
		return all
	}
	page, err := c.client.Sessions(t.Context(), client.SessionQuery{ParentID: "s"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("kept is %+v, %v", page.Items, err)
	}
	if now, old := texts("s"), texts(page.Items[0].ID); now != "one; own: one; other; own: other; " || old != "one; own: one; two; own: two; " {
		t.Errorf("the session has %q, the copy %q", now, old)
	}
	if c.say(client.Turn{SessionID: "s", Input: client.UserMessage{Text: "first"}, FromMessage: at(0)}); texts("s") != "first; own: first; " {
		t.Errorf("the session has %q", texts("s"))
	}
	for name, test := range map[string]struct {
		turn  client.Turn
		code  cairn.Code
		field string
	}{
		"no session":       {client.Turn{FromMessage: at(0), Agent: "bot"}, cairn.ErrInvalid, "from_message"},
		"another session":  {client.Turn{SessionID: "none", Agent: "bot", FromMessage: at(0)}, cairn.ErrNotFound, ""},
		"a negative index": {client.Turn{SessionID: "s", FromMessage: at(-1)}, cairn.ErrInvalid, "from_message"},
		"an answer":        {client.Turn{SessionID: "s", FromMessage: at(1)}, cairn.ErrInvalid, ""},
		"nothing replaced": {client.Turn{SessionID: "s", KeepReplaced: true}, cairn.ErrInvalid, "keep_replaced"},
	} {
		test.turn.Input.Text = "never"
		_, err := c.client.Start(t.Context(), test.turn)
		if e := (*cairn.Error)(nil); !errors.As(err, &e) || e.Code != test.code || test.field != "" && e.Field != test.field {
			t.Errorf("%s: %v, want %s for %s", name, err, test.code, test.field)
		}
	}
	if texts("s") != "first; own: first; " {
		t.Errorf("refused turns left %q", texts("s"))
	}
	if _, err := c.client.Session(t.Context(), "none"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a refused turn made a session: %v", err)
	}
}
