package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
)

type advanceIn struct {
	// Ticket names the run and permits the request.
	Ticket string `json:"ticket"`
	// Wait is how long the request waits for the step. 0 means the server's default, which is 25 seconds unless it is
	// set.
	Wait cairn.Duration `json:"wait,omitempty"`
}

type advanceSessionIn struct {
	ID string `path:"id" json:"-"`
	// Wait is how long the request waits for the step. 0 means the server's default, which is 25 seconds unless it is
	// set.
	Wait cairn.Duration `json:"wait,omitempty"`
}

// advanceBody is how far a run is.
type advanceBody struct {
	// State is "more" if the caller has to make another request, with the ticket of this response; "waiting" if the run
	// is suspended, so that another run continues it; "ended" if it has ended; and "taken_over" if another caller got
	// it. After the last three the caller is done.
	State engine.AdvanceState `json:"state"`
	// Status is the status of the run.
	Status cairn.RunStatus `json:"status"`
	// Step is the number of steps that are done.
	Step int `json:"step"`
	// Ticket is the ticket of the next request, in a response to a request with a ticket.
	Ticket string `json:"ticket,omitempty"`
	// Until is the first deadline of the calls that a waiting run waits for.
	Until time.Time `json:"until,omitzero"`
}

// advanceTicket drives a step of the run that a ticket names.
func advanceTicket(c *request, in *advanceIn) (*advanceBody, error) {
	a := c.h.opts.Advance
	if a == nil || a.Tickets == nil {
		return nil, noPath()
	}
	if in.Ticket == "" {
		return nil, cairn.Invalid("ticket", "is required")
	}
	run, err := a.Tickets.Run(in.Ticket)
	switch {
	case errors.Is(err, host.ErrTicketExpired):
		return nil, &httpError{http.StatusGone, "ticket_expired", err.Error()}
	case err != nil:
		return nil, &httpError{http.StatusUnauthorized, "unauthorized", err.Error()}
	}
	if err := c.h.users.request("run of " + run.SessionID); err != nil { // limited by session: there is no user
		return nil, err
	}
	p, err := c.advance(run, in.Wait)
	if err != nil {
		return nil, err
	}
	out := advanceBody{State: p.State, Status: p.Status, Step: p.Run.Step, Until: p.Until}
	if p.State == engine.AdvanceMore {
		out.Ticket = a.Tickets.Issue(p.Run, a.TicketTTL)
	}
	return &out, nil
}

// advanceSession drives a step of a session's run, for principals that may run the session.
func advanceSession(c *request, in *advanceSessionIn) (*advanceBody, error) {
	if _, err := c.openRoot(in.ID, ActionRun); err != nil {
		return nil, err
	}
	if c.h.opts.Advance == nil {
		return nil, noPath()
	}
	run, err := c.h.eng.Reference(c.ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p, err := c.advance(run, in.Wait)
	if err != nil {
		return nil, err
	}
	return &advanceBody{State: p.State, Status: p.Status, Step: p.Run.Step, Until: p.Until}, nil
}

// advance drives a step until the request has waited long enough.
func (c *request) advance(run host.Run, wait cairn.Duration) (*engine.Progress, error) {
	switch {
	case wait < 0 || time.Duration(wait) > MaxAdvanceWait:
		return nil, cairn.Invalid("wait", "must be 0 to %d seconds", int(MaxAdvanceWait.Seconds()))
	case wait == 0:
		wait = cairn.Duration(c.h.opts.Advance.Wait)
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(wait))
	defer cancel()
	defer context.AfterFunc(c.h.ctx, cancel)()
	p, err := c.h.eng.Advance(ctx, run)
	if err != nil && c.h.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &cairn.Error{Code: cairn.ErrClosed, Message: "server is shutting down"}
	}
	return p, err
}
