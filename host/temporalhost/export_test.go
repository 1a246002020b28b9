package temporalhost

import "context"

// Turn returns the code of the host's workflow, for replays.
func (h *Host) Turn() any { return h.turn }

// Carried returns an error as it is after an activity has returned it to its workflow.
func Carried(ctx context.Context, err error) error { return inward(outward(ctx, err)) }

// Inward returns an error of Temporal's as the loop gets it.
func Inward(err error) error { return inward(err) }
