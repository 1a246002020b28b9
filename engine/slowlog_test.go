package engine_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
)

// chatty is a model whose reply has a number of chunks, one each millisecond. It closes read once the engine has read them.
type chatty struct {
	chunks int
	read   chan struct{}
}

func (*chatty) Info() cairn.ModelInfo { return cairn.ModelInfo{} }

func (m *chatty) text() (text string) {
	for n := range m.chunks {
		text += fmt.Sprint(n, " ")
	}
	return text
}

func (m *chatty) Stream(context.Context, *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		for n := range m.chunks {
			if !yield(cairn.Chunk{Type: cairn.ChunkText, Text: fmt.Sprint(n, " ")}, nil) {
				return
			}
			testclock.Deaf(time.Millisecond)
		}
		if yield(cairn.Chunk{Type: cairn.ChunkFinish}, nil) {
			close(m.read)
		}
	}
}

var coalescing = with(func(o *engine.Options) { o.Coalesce = 0 }) // the default, 20 ms

func hasText(events []cairn.Event) bool {
	return slices.ContainsFunc(events, func(ev cairn.Event) bool { return ev.Type == cairn.EventTextDelta })
}

// TestBlockedLogDoesNotStopTheModel reads a whole reply while the log does not answer its first append. The step is
// committed when the log has all of it.
func TestBlockedLogDoesNotStopTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, model := tapOn(nil), &chatty{chunks: 1000, read: make(chan struct{})}
		gate := make(chan struct{})
		var appends atomic.Int64
		st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
			if hasText(events) {
				appends.Add(1)
				<-gate
			}
			return nil
		})
		eng := open(t, st, bot(model), coalescing)
		run := start(t, eng, "s", "go")
		<-model.read
		synctest.Wait()
		if n := appends.Load(); n != 1 {
			t.Errorf("%d appends of text while the first one is under way", n)
		}
		if row := must(eng.Session(t.Context(), "s")); row.Status != cairn.SessionActive {
			t.Errorf("the session is %s before the log has its events", row.Status)
		}
		close(gate)
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		if n := appends.Load(); n > 3 {
			t.Errorf("%d appends of text, want at most 3", n)
		}
		var text strings.Builder
		for _, ev := range must(st.log.Read(t.Context(), must(eng.Session(t.Context(), "s")).Log(), 0, 10_000)) {
			if ev.Type == cairn.EventTextDelta {
				text.WriteString(ev.Text)
			}
		}
		if text.String() != model.text() {
			t.Errorf("the log has the text %q", text.String())
		}
	})
}

// TestClosedEngineLeavesABlockedLog closes an engine while the log does not answer. The test ends only if all goroutines
// of the run do.
func TestClosedEngineLeavesABlockedLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, model := tapOn(nil), &chatty{chunks: 1000, read: make(chan struct{})}
		blocked := make(chan struct{}, 100)
		st.log.stepIn(func(ctx context.Context, events []cairn.Event) error {
			if !hasText(events) {
				return nil
			}
			blocked <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		eng := open(t, st, bot(model), coalescing)
		start(t, eng, "s", "go")
		<-blocked
		leave(t, eng)
	})
}
