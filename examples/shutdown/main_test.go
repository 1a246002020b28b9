package main

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/examples/internal/process"
)

func TestMain(m *testing.M) { process.Main(main, func() { os.Exit(m.Run()) }) }

// After a signal halfway through an answer, the answer ends first and then the process.
func TestSignalInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	p := process.Start(t, t.TempDir())
	address := p.Await(t, "http://")
	type answer struct {
		status int
		text   string
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := http.PostForm(address, url.Values{"session": {"session-1"}, "text": {"Help!"}})
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		answered <- answer{resp.StatusCode, string(text), err}
	}()
	p.Await(t, "thinking")
	p.Signal(t, syscall.SIGTERM)
	if got := <-answered; got != (answer{http.StatusOK, "Here you are.\n", nil}) {
		t.Errorf("the request was answered with %+v", got)
	}
	p.End(t)
}
