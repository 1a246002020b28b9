package server

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// Advance has the server drive runs step by step, for a caller that can call a URL: see [engine.Engine.Advance]. The
// engine must have a host such as package host/httphost.
type Advance struct {
	// Tickets check the tickets of POST /advance and issue the next ones; nil means that only
	// POST /sessions/{id}/advance is served, to principals that may run the session.
	Tickets *host.Tickets
	// TicketTTL is how long the ticket of a response is valid; 0 means 24 hours.
	TicketTTL time.Duration
	// Wait is how long a request waits for its step if it does not say; 0 means 25 seconds. Callers often have a
	// timeout of 30 or 60 seconds.
	Wait time.Duration
}

const (
	// MaxAdvanceWait is the longest time that a request may wait for its step.
	MaxAdvanceWait = 15 * time.Minute
	advanceWait    = 25 * time.Second
	ticketTTL      = 24 * time.Hour
)

// complete checks the options and fills in defaults.
func (a *Advance) complete() (*Advance, error) {
	out := *a
	switch {
	case out.TicketTTL < 0:
		return nil, cairn.Invalid("Advance", "TicketTTL is negative")
	case out.Wait < 0 || out.Wait > MaxAdvanceWait:
		return nil, cairn.Invalid("Advance", "Wait must not be negative or longer than %s", MaxAdvanceWait)
	}
	if out.TicketTTL == 0 {
		out.TicketTTL = ticketTTL
	}
	if out.Wait == 0 {
		out.Wait = advanceWait
	}
	return &out, nil
}
