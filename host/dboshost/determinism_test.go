package dboshost_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// replay has DBOS replay every completed turn of a process from its recorded steps. The process's engine is closed, so
// a loop that asks for an unrecorded step would block, and DBOS refuses one that asks for another step than the
// recorded one.
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
