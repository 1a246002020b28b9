package lifecycle

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Awaited reports whether a child's parent waits for its answer, as it was when the child's run began: it does not wait
// for a companion in the background. The mode that the companion has now does not matter.
func (r *Runs) Awaited(ctx context.Context, child *cairn.Session) (bool, error) {
	if child.Kind != cairn.ChildCompanion || child.RunID == "" {
		return true, nil
	}
	run, err := driver.FindRun(ctx, r.Store, child.ID, child.RunID)
	if errors.Is(err, cairn.ErrNotFound) {
		return true, nil
	}
	return err == nil && !run.Background, err
}
