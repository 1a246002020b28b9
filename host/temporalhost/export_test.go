package temporalhost

// Turn returns the code of the host's workflow, for replays.
func (h *Host) Turn() any { return h.turn }
