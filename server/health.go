package server

import (
	"github.com/cairn-agents/cairn"
)

// Health is the response to a probe.
type Health struct {
	// Status is "ok".
	Status string `json:"status"`
}

func healthz(*request, *struct{}) (*Health, error) { return &Health{"ok"}, nil }

// readyz fails once the process is about to stop, so that a proxy sends requests elsewhere.
func readyz(c *request, _ *struct{}) (*Health, error) {
	if c.h.leaving.Load() {
		return nil, &cairn.Error{Code: cairn.ErrClosed, Message: "the server is being stopped"}
	}
	return &Health{"ok"}, nil
}
