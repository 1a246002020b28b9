package workspace

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// launch starts a command in the background.
func (v *visit) launch(ctx context.Context, command string, c Command, out *output) (*background, error) {
	running := 0
	for b := range maps.Values(v.s.processes) {
		if b.running() {
			running++
		} else if len(v.s.processes) >= 4*v.limits.Background {
			delete(v.s.processes, b.id)
		}
	}
	if running >= v.limits.Background {
		return nil, cairn.Invalid("background", "%d commands run in the background, which is the limit: stop one first", running)
	}
	p, err := v.dir.(Runner).Start(ctx, c)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "run the command: %w", err)
	}
	v.s.started++
	v.s.owner = v.owner
	b := &background{id: strconv.Itoa(v.s.started), command: command, process: p, out: out, began: time.Now(), done: make(chan struct{})}
	v.s.processes[b.id] = b
	w, id, s := v.w, directoryID(v.call.SessionID, v.call.Incarnation), v.s
	limit := time.AfterFunc(v.limits.BackgroundTime, p.Kill)
	measure := newMeter(context.WithoutCancel(ctx), v.dir, v.limits.DiskBytes)
	go func() {
		if <-measure.done; measure.full() {
			p.Kill()
		}
	}()
	go func() {
		status, err := p.Wait()
		limit.Stop()
		measure.stop()
		b.tooBig = measure.full()
		b.status, b.err, b.ended = status, err, time.Now()
		close(b.done)
		w.settle(id, s)
	}()
	return b, nil
}

// settle closes the directory of a session when no command uses it any more.
func (w *Workspace) settle(id string, s *session) {
	w.mu.Lock()
	s.users++
	w.mu.Unlock()
	s.turn <- struct{}{}
	w.leave(id, s)
}

// processing are the arguments of the tool for background commands.
type processing struct {
	ID   string `json:"id,omitempty" jsonschema:"The command whose output to return. Without it, the commands are listed."`
	Stop bool   `json:"stop,omitempty" jsonschema:"Kill the command."`
}

// processesTool lists background commands, shows their output and stops them. The next snapshot has the changes that they
// have made; a command that is stopped has made its last.
func (w *Workspace) processesTool(p pinned) cairn.Tool {
	return newTool(w, "processes", "List the commands that run in the background, or show the output of one, or stop it.", true, p,
		func(ctx context.Context, v *visit, in processing) (string, error) {
			if in.ID == "" {
				if in.Stop {
					return "", cairn.Invalid("id", "is empty: which command is to be stopped?")
				}
				lines := []string{}
				for _, id := range slices.Sorted(maps.Keys(v.s.processes)) {
					lines = append(lines, v.s.processes[id].String())
				}
				if len(lines) == 0 {
					return "No commands run in the background.", nil
				}
				return strings.Join(lines, "\n"), nil
			}
			b := v.s.processes[in.ID]
			if b == nil {
				return "", cairn.Invalid("id", "no command %q runs in the background", in.ID)
			}
			if in.Stop && b.running() {
				b.process.Kill()
				<-b.done
			}
			return strings.TrimRight(b.out.text(), "\n") + "\n[" + b.String() + "]", nil
		})
}
