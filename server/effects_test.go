package server

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A client lists and settles what is unknown, and the stream has the events of an effect.
func TestClientSettlesAnEffect(t *testing.T) {
	t.Parallel()
	at := make(chan struct{})
	transfer := cairn.Func("transfer", "Transfers.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		close(at)
		<-ctx.Done()
		return "", ctx.Err()
	}, cairn.Effectful())
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Call("transfer", struct{}{}).ID("c1"), scripted.Text("bye")), Tools: []cairn.Tool{transfer}}
	w := newWorldOf(t, nil, agent)
	run, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Text("go"), engine.WithUser("alice"))
	if err != nil {
		t.Fatal(err)
	}
	<-at
	ledger := func(c *client.Client, states ...cairn.EffectState) []cairn.PendingCall {
		t.Helper()
		var all []cairn.PendingCall
		for q := (client.EffectQuery{States: states}); ; {
			page, err := c.Effects(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, page.Items...); page.Next == "" {
				return all
			}
			q.Cursor = page.Next
		}
	}
	as := func(token string) *client.Client {
		c, err := client.New(w.url, &client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	alice, eve := as("a"), as("e")
	if got := ledger(alice, cairn.EffectSent); len(got) != 1 || got[0].Status != cairn.CallSent || got[0].ToolCallID != "c1" {
		t.Errorf("under way are %+v", got)
	}
	if err := w.eng.Interrupt(t.Context(), "s", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ledger(eve); len(got) != 0 {
		t.Errorf("another user sees %+v", got)
	}
	unknown := ledger(alice, cairn.EffectUnknown)
	if len(unknown) != 1 {
		t.Fatalf("unknown are %+v", unknown)
	}
	row, err := alice.SettleEffect(t.Context(), "s", unknown[0].ID, false, "not at the bank", "")
	if err != nil || row.Effect.State != cairn.EffectFailed || row.Trail[len(row.Trail)-1].Reviewer != "alice" {
		t.Fatalf("%+v, %v", row, err)
	}
	if _, err := alice.Effects(t.Context(), client.EffectQuery{States: []cairn.EffectState{"lost"}}); cairn.AsError(err).Field != "state" {
		t.Errorf("an unknown state: %v", err)
	}
	if _, err := alice.Effects(t.Context(), client.EffectQuery{UserID: "bob"}); cairn.AsError(err).Field != "user_id" {
		t.Errorf("another user: %v", err)
	}
}
