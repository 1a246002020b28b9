package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// stop interrupts or aborts sessions of a tree, one after the other: the root, or a child by itself, while it runs or
// waits. It records each stop that was acknowledged.
func (o *order) stop(ctx context.Context, j *journal, st driver.Store, eng *engine.Engine, root string, rng *rand.Rand) error {
	for {
		if err := testclock.Pause(ctx, time.Duration(o.Pace*(20+rng.IntN(300)))*time.Millisecond); err != nil {
			return err
		}
		page, err := st.List(ctx, driver.SessionQuery{RootID: root, Statuses: []cairn.SessionStatus{cairn.SessionActive, cairn.SessionPaused}})
		if err != nil && !errors.Is(err, cairn.ErrUnavailable) {
			return err
		}
		if len(page.Items) == 0 {
			continue
		}
		row := &page.Items[rng.IntN(len(page.Items))]
		stop := eng.Interrupt
		if rng.IntN(4) == 0 {
			stop = eng.Abort
		}
		switch err := stop(ctx, row.ID, ""); {
		case err == nil:
			j.write(record{Kind: stopHeld, Session: row.ID, Ended: row.RunID})
		case !contended(err):
			return fmt.Errorf("stop of session %s: %w", row.ID, err)
		}
	}
}

// stopsHold finds stops that returned although the run, or the one that resumed it, runs or waits still. A run that waits
// and is no longer the session's own was withdrawn by a later turn: the stop, which had listed the earlier run, ended that.
func stopsHold(h *History) error {
	byID, resumedBy := map[string]*cairn.Run{}, map[string]*cairn.Run{}
	for i := range h.Runs {
		r := &h.Runs[i]
		byID[r.ID] = r
		resumedBy[r.PreviousRunID] = r
	}
	for _, record := range h.Journal {
		if record.Kind != stopHeld {
			continue
		}
		run := byID[record.Ended]
		for run != nil && run.Status == cairn.RunSuspended && (resumedBy[run.ID] != nil || run.ID == h.Session.RunID) {
			run = resumedBy[run.ID]
		}
		if run == nil || run.Status == cairn.RunRunning {
			return fmt.Errorf("process %s stopped run %s, which has not ended", record.Process, record.Ended)
		}
	}
	return nil
}
