package demo

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestCtrlCTwice presses Ctrl-C twice while a tool ignores the first one: the conversation ends without waiting.
func TestCtrlCTwice(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	stubborn := cairn.Func("wait", "Waits.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		close(begun)
		<-release
		return "done", nil
	})
	agent := &cairn.Agent{Name: support.Name, Model: scripted.New(scripted.Call("wait", nil)), Tools: []cairn.Tool{stubborn}}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	defer close(release)

	var out strings.Builder
	a := &cli.App{Stdin: strings.NewReader("go\nthis is not read\n"), Stdout: &out}
	interrupts := make(chan os.Signal)
	c := newChat(a, &setup.Setup{Eng: eng}, "s1", interrupts)
	go func() {
		<-begun
		interrupts <- os.Interrupt
		interrupts <- os.Interrupt
	}()
	if err := c.talk(t.Context()); err != nil {
		t.Error(err)
	}
	if !c.left || c.patience() != 0 || !strings.Contains(out.String(), "Left in the middle of the answer.") || strings.Contains(out.String(), "not read") {
		t.Errorf("left %t:\n%s", c.left, out.String())
	}
}
