package chat

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestCtrlCTwice presses Ctrl-C twice while a tool ignores the first one: the conversation ends without waiting,
// and a stop of the run has been requested.
func TestCtrlCTwice(t *testing.T) {
	t.Parallel()
	begun, stopped, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	stubborn := cairn.Func("wait", "Waits.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		close(begun)
		<-ctx.Done()
		close(stopped)
		<-release
		return "done", nil
	})
	agent := &cairn.Agent{Name: "guide", Model: scripted.New(scripted.Call("wait", nil)), Tools: []cairn.Tool{stubborn}}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	defer close(release)
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer h.Drain()
	cl, err := client.New(srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	interrupts := make(chan os.Signal)
	c := newChat(&cli.App{Stdin: strings.NewReader("go\nthis is not read\n"), Stdout: &out}, cl, "s", "guide", interrupts)
	go func() {
		<-begun
		interrupts <- os.Interrupt
		<-stopped
		interrupts <- os.Interrupt
	}()
	if err := c.talk(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "Left in the middle of the answer.") || strings.Contains(out.String(), "not read") {
		t.Errorf("it shows\n%s", out.String())
	}
}
