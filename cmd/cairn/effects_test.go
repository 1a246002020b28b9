package main

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// breakOff leaves three unknown effects behind in a tenant: one that a run waits for and two of stopped runs.
func (b *bench) breakOff(t *testing.T, tenant string) {
	t.Helper()
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	at := make(chan struct{})
	wire := cairn.Func("wire", "Wires.", func(ctx context.Context, call *cairn.Call, in amountArgs) (string, error) {
		if in.Amount == 1 {
			return "", cairn.Errorf(cairn.ErrEffectUnknown, "the bank hung up")
		}
		at <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}, cairn.Effectful())
	agent := func(name string, amount int) *cairn.Agent {
		return &cairn.Agent{Name: name, Tools: []cairn.Tool{wire}, Model: scripted.New(scripted.Call("wire", amountArgs{amount}))}
	}
	eng, err := engine.New(st, []*cairn.Agent{agent("asks", 1), agent("stops", 2), agent("halts", 3)}, &engine.Options{Now: b.now, NewID: b.newID})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	for _, name := range []string{"asks", "stops", "halts"} {
		id := cairn.InTenant(tenant, name)
		run, err := eng.Execute(t.Context(), id, name, cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		if name != "asks" {
			<-at
			if err := eng.Interrupt(t.Context(), id, ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.breakOff(t, "")
	stdout := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := b.run("", append([]string{"effects"}, args...)...)
		if code != want {
			t.Fatalf("effects %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
		return out + errs
	}
	list := stdout(cli.ExitOK, "list", "--state", "unknown")
	for _, want := range []string{`{"amount":1}`, "unknown, pending", `{"amount":2}`, `{"amount":3}`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	id := func(session string) string {
		for line := range strings.Lines(list) {
			if f := strings.Fields(line); f[1] == session {
				return f[0]
			}
		}
		t.Fatalf("no effect of %s in\n%s", session, list)
		return ""
	}
	if out := stdout(cli.ExitOK, "confirm", id("stops"), "--by", "ann", "--notes", "seen"); out != "wire of session stops is confirmed.\n" {
		t.Error(out)
	}
	if out := stdout(cli.ExitOK, "dismiss", id("halts"), "--by", "ann"); out != "wire of session halts is failed.\n" {
		t.Error(out)
	}
	if out := stdout(cli.ExitOK, "confirm", id("asks"), "--by", "ann"); !strings.Contains(out, "can be resumed now") {
		t.Error(out)
	}
	if out := stdout(cli.ExitUsage, "dismiss", id("stops"), "--by", "ann"); !strings.Contains(out, "is not unknown, it is confirmed") {
		t.Error(out)
	}
	if out := stdout(cli.ExitUsage, "list", "--state", "lost"); !strings.Contains(out, `unknown state "lost"`) {
		t.Error(out)
	}
	if out := stdout(cli.ExitNotFound, "confirm", "none", "--by", "ann"); !strings.Contains(out, `"none" not found`) {
		t.Error(out)
	}
	if out := stdout(cli.ExitUsage, "confirm", "effect_", "--by", "ann"); !strings.Contains(out, "ambiguous") {
		t.Error(out)
	}
	if out := stdout(cli.ExitOK, "list", "--json", "--state", "confirmed"); !strings.Contains(out, `"state": "confirmed"`) || strings.Contains(out, "halts") {
		t.Error(out)
	}
	// The inbox lists the calls that a person is or was asked about.
	if out, _, _ := b.run("", "inbox", "list", "--all"); strings.Count(out, "effect_") != 1 {
		t.Error(out)
	}
}

func TestEffectsOfATenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.breakOff(t, "")
	b.breakOff(t, "acme")
	list := func(args ...string) []string {
		t.Helper()
		out, errs, code := b.run("", append([]string{"effects", "list"}, args...)...)
		if code != cli.ExitOK {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
		return strings.Split(strings.TrimSpace(out), "\n")[1:]
	}
	of := list("--tenant", "acme")
	if all := list(); len(of) != 3 || len(all) != 6 {
		t.Fatalf("%d effects of acme, %d in all", len(of), len(all))
	}
	for _, line := range of {
		if !strings.Contains(line, "acme::") {
			t.Errorf("an effect of acme: %s", line)
		}
	}
	if got := list("--tenant", "acme", "--session", "stops"); len(got) != 1 || !strings.Contains(got[0], "acme::stops") {
		t.Errorf("the effects of a session of acme are %q", got)
	}
	id := strings.Fields(of[0])[0]
	if out, errs, code := b.run("", "effects", "dismiss", id, "--by", "ann", "--tenant", "other"); code != cli.ExitNotFound {
		t.Errorf("exit %d: another tenant's effect: %s%s", code, out, errs)
	}
	if out, errs, code := b.run("", "effects", "dismiss", id, "--by", "ann", "--tenant", "acme"); code != cli.ExitOK {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
