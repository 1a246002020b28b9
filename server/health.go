package server

import (
	"github.com/cairn-agents/cairn"
)

// healthBody is the response to a probe.
type healthBody struct {
	// Status is "ok".
	Status string `json:"status"`
}

func healthz(*request, *struct{}) (*healthBody, error) { return &healthBody{"ok"}, nil }

// readyz fails once the process is about to stop, so that a proxy sends requests elsewhere.
func readyz(c *request, _ *struct{}) (*healthBody, error) {
	if c.h.leaving.Load() {
		return nil, &cairn.Error{Code: cairn.ErrClosed, Message: "server is shutting down"}
	}
	return &healthBody{"ok"}, nil
}
