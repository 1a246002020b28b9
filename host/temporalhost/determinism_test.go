package temporalhost_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn/host/temporalhost"
)

// replays replays the histories of a scene once when it is over: whatever happened in it, the loop must ask for the
// same things in the same order again. An unfinished workflow's history is replayed as far as it goes.
type replays struct {
	c    client.Client
	seen sync.Map // of scenes
}

// of is called for each process of a scene, before its worker starts.
func (r *replays) of(tb testing.TB, prefix string, h *temporalhost.Host) {
	tb.Helper()
	if _, ok := r.seen.LoadOrStore(prefix, true); !ok {
		tb.Cleanup(func() { r.replay(tb, prefix, h) })
	}
}

func (r *replays) replay(tb testing.TB, prefix string, h *temporalhost.Host) {
	tb.Helper()
	if tb.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	player := worker.NewWorkflowReplayer()
	player.RegisterWorkflowWithOptions(h.Turn(), workflow.RegisterOptions{Name: temporalhost.TurnWorkflow})
	list := r.list(ctx, tb, prefix)
	for _, x := range list {
		if err := player.ReplayWorkflowHistory(silent, r.history(ctx, tb, x)); err != nil {
			tb.Errorf("the history of %s, run %s, does not replay: %v", x.ID, x.RunID, err)
		}
	}
	tb.Logf("%d histories replayed", len(list))
}

// history returns the events of a workflow run so far.
func (r *replays) history(ctx context.Context, tb testing.TB, x workflow.Execution) *historypb.History {
	tb.Helper()
	var h historypb.History
	for page := r.c.GetWorkflowHistory(ctx, x.ID, x.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); page.HasNext(); {
		ev, err := page.Next()
		if err != nil {
			tb.Fatal(err)
		}
		h.Events = append(h.Events, ev)
	}
	return &h
}

// list returns the workflow runs of a scene. The server lists them a moment after they began.
func (r *replays) list(ctx context.Context, tb testing.TB, prefix string) (list []workflow.Execution) {
	tb.Helper()
	for len(list) == 0 {
		var token []byte
		for more := true; more; more = len(token) > 0 {
			page, err := r.c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Query: fmt.Sprintf("WorkflowId STARTS_WITH '%s/'", prefix), NextPageToken: token})
			if err != nil {
				tb.Fatalf("no workflow of %s: %v", prefix, err)
			}
			for _, x := range page.GetExecutions() {
				list = append(list, workflow.Execution{ID: x.GetExecution().GetWorkflowId(), RunID: x.GetExecution().GetRunId()})
			}
			token = page.GetNextPageToken()
		}
	}
	return list
}

// plain turns a scene's name into one that can stand in a query.
func plain(name string) string { return strings.ReplaceAll(name, "/", ".") }
