package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// OutputEvent is the name of the custom events with the output of a command that runs, see [Output].
const OutputEvent = "workspace_output"

// Output is the data of an OutputEvent. Each event of a call replaces the one before, since its id is the id of the call.
type Output struct {
	// CallID is the call that runs the command.
	CallID string `json:"call_id"`
	// Text is the end of the output so far, at most 4 KiB. Bytes is the size of all output.
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"`
}

// streamed is the size of the text of an OutputEvent.
const streamed = 4 << 10

// The pauses between two events of a command: the first, and the longest.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
)

// ending is how a command has ended.
type ending struct {
	status   int
	elapsed  time.Duration
	timedOut bool
	tooBig   bool // the files exceeded the limit
}

const tooBigText = "killed, because the files exceed the limit of size"

// String returns what follows the output.
func (e ending) String() string {
	took := e.elapsed.Round(100 * time.Millisecond)
	switch {
	case e.timedOut:
		return fmt.Sprintf("killed after %s, the limit of time", took)
	case e.tooBig:
		return tooBigText
	case e.status < 0:
		return "killed"
	}
	return fmt.Sprintf("exit status %d after %s", e.status, took)
}

// command returns a command of the workspace.
func (v *visit) command(out *output, dir string, args ...string) Command {
	m := &v.w.opts.Manifest
	return Command{Args: args, Dir: dir, Output: out, Environment: m.environment(), Mounts: m.Mounts}
}

// run runs a command until it ends, its time is up, or the context is done, and streams its output.
func (v *visit) run(ctx context.Context, c Command, out *output, most time.Duration) (ending, error) {
	p, err := v.dir.(Runner).Start(ctx, c)
	if err != nil {
		return ending{}, cairn.Errorf(cairn.ErrUnavailable, "run the command: %w", err)
	}
	began := time.Now()
	ended := make(chan struct{})
	var status int
	var failed error
	go func() {
		defer close(ended)
		status, failed = p.Wait()
	}()
	var e ending
	limit := time.NewTimer(most)
	defer limit.Stop()
	stream := newStream(v.call, out)
	defer stream.stop()
	measure := newMeter(ctx, v.dir, v.limits.DiskBytes)
	defer measure.stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
			continue
		case <-stream.due():
			stream.emit()
			continue
		case <-measure.exceeded:
			e.tooBig = true
		case <-limit.C:
			e.timedOut = true
		case <-ctx.Done():
		}
		p.Kill()
		<-ended
		running = false
	}
	e.status, e.elapsed = status, time.Since(began)
	if ctx.Err() != nil {
		return e, cairn.ContextError(ctx, "the command")
	}
	if failed != nil {
		return e, cairn.Errorf(cairn.ErrUnavailable, "run the command: %w", failed)
	}
	if stream.emitted {
		stream.emit()
	}
	return e, nil
}

// stream publishes the output of a command while it runs.
type stream struct {
	call    *cairn.Call
	out     *output
	timer   *time.Timer
	pause   time.Duration
	seen    int64
	emitted bool
}

func newStream(call *cairn.Call, out *output) *stream {
	return &stream{call: call, out: out, timer: time.NewTimer(firstPause), pause: firstPause}
}

func (s *stream) due() <-chan time.Time { return s.timer.C }

func (s *stream) stop() { s.timer.Stop() }

// emit publishes the output if there is more of it. A failure loses only what pages show while the command runs.
func (s *stream) emit() {
	text, total := s.out.last(streamed)
	if total > s.seen {
		id := s.call.ID
		if ids.Check(id) != "" {
			id = "output"
		}
		_ = s.call.Emit(OutputEvent, Output{CallID: s.call.ID, Text: text, Bytes: total}, cairn.EmitID(id))
		s.seen, s.emitted = total, true
	}
	s.pause = min(2*s.pause, lastPause)
	s.timer.Reset(s.pause)
}

// meter measures the files of a directory while a command runs.
type meter struct {
	exceeded chan struct{}
	cancel   context.CancelFunc
	done     chan struct{}
}

// measured is a Directory that can be measured while commands run.
type measured interface {
	// Usage returns the size of all files, with those beside the workspace.
	Usage(ctx context.Context) (int64, error)
}

func newMeter(ctx context.Context, d Directory, most int64) *meter {
	ctx, cancel := context.WithCancel(ctx)
	m := &meter{exceeded: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for pause := time.Second; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			of, ok := d.(measured)
			if !ok {
				return
			}
			began := time.Now()
			size, err := of.Usage(ctx)
			if err == nil && size > most {
				close(m.exceeded)
				return
			}
			pause = min(max(time.Second, 20*time.Since(began)), 10*time.Second)
		}
	}()
	return m
}

func (m *meter) stop() {
	m.cancel()
	<-m.done
}

// full reports whether the files have exceeded the limit.
func (m *meter) full() bool {
	select {
	case <-m.exceeded:
		return true
	default:
		return false
	}
}
