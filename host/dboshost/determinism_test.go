package dboshost_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// replay has DBOS play again every turn that a process brought to its end, from what it recorded of each step. The process's
// engine is closed: a loop that asked for a step that is not recorded would wait for it in vain, and one that asked for another
// step than the recorded one is refused by DBOS.
func replay(tb testing.TB, database, schema, version string) {
	tb.Helper()
	if tb.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := dbos.NewClient(ctx, dbos.ClientConfig{DatabaseURL: database, DatabaseSchema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	defer dbos.Shutdown(client, time.Minute)
	list, err := dbos.ListWorkflows(client, dbos.WithFilterAppVersion(version), dbos.WithFilterStatus(dbos.WorkflowStatusSuccess))
	if err != nil {
		tb.Fatal(err)
	}
	again := map[string]dbos.WorkflowHandle[any]{}
	for _, w := range list {
		steps, err := dbos.GetWorkflowSteps(client, w.ID)
		if err != nil {
			tb.Fatal(err)
		}
		end := 0
		for _, step := range steps {
			end = max(end, step.StepID+1)
		}
		h, err := dbos.ForkWorkflow[any](client, dbos.ForkWorkflowInput{OriginalWorkflowID: w.ID, StartStep: uint(end), ApplicationVersion: version})
		if err != nil {
			tb.Fatal(err)
		}
		again[w.ID] = h
	}
	for id, h := range again {
		if _, err := h.GetResult(dbos.WithHandleTimeout(30 * time.Second)); err != nil {
			tb.Errorf("%s does not replay: %v", id, err)
		}
	}
	tb.Logf("%d turns replayed", len(again))
}
