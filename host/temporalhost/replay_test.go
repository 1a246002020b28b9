package temporalhost

import (
	"embed"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// histories are of turns that were driven by earlier versions, and may be under way when a new one is deployed.
//
//go:embed testdata
var histories embed.FS

// replay plays a recorded history with a workflow's code.
func replay(t *testing.T, file string, code func(*Host) any) error {
	t.Helper()
	f, err := histories.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	history, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewLazyClient(client.Options{}) // which is never asked
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(c, &Options{Prefix: "TestRecord/" + strings.SplitN(file, "-", 2)[0], StepsPerRun: 3})
	if err != nil {
		t.Fatal(err)
	}
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(code(h), workflow.RegisterOptions{Name: TurnWorkflow})
	return r.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), history)
}

func recorded(t *testing.T) []string {
	t.Helper()
	list, err := histories.ReadDir("testdata")
	if err != nil || len(list) == 0 {
		t.Fatal("there are no histories: ", err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	for _, file := range recorded(t) {
		if err := replay(t, file, func(h *Host) any { return h.turn }); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Replay detects a loop that does things in another order.
func TestChangedLoopDoesNotReplay(t *testing.T) {
	t.Parallel()
	for _, file := range recorded(t) {
		err := replay(t, file, func(h *Host) any {
			return func(ctx workflow.Context, in turnInput) (cairn.RunStatus, error) {
				s := &scheduler{h, ctx, in}
				at := in.Position
				at.Step++
				var end host.Committed
				err := s.Do(host.Effect{Name: host.EffectCommit, In: at, Out: &end})
				return end.Status, err
			}
		})
		if err == nil {
			t.Errorf("%s replays with a loop that commits before it plans", file)
		}
	}
}
