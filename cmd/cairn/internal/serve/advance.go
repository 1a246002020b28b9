package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/server"
)

// ticketTTL is how long the tickets of the server are valid if the file does not say.
const ticketTTL = 24 * time.Hour

// callers returns the host that leaves runs to callers, and the options of the server for them. The host posts a ticket
// for each run that begins.
func callers(cfg *config.Advance) (host.Host, *server.Advance, error) {
	tickets, err := host.NewTickets(cfg.Secret, cfg.EarlierSecrets...)
	if err != nil {
		return nil, nil, err
	}
	ttl := cmp.Or(time.Duration(cfg.TicketTTL), ticketTTL)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	h, err := httphost.New(&httphost.Options{Patience: time.Duration(cfg.Patience), Start: func(ctx context.Context, run host.Run) error {
		if cfg.Start == "" {
			return nil
		}
		return post(ctx, client, cfg, tickets.Issue(run, ttl))
	}})
	return h, &server.Advance{Tickets: tickets, TicketTTL: ttl, Wait: time.Duration(cfg.Wait)}, err
}

// post gives a ticket to the caller. Every failure is ErrUnavailable, so that it is tried again: without the ticket
// nothing drives the run.
func post(ctx context.Context, client *http.Client, cfg *config.Advance, ticket string) error {
	body, err := json.Marshal(map[string]string{"ticket": ticket})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.Start, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if cfg.StartToken != "" {
		req.Header.Set("Authorization", "Bearer "+cfg.StartToken)
	}
	resp, err := client.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which may have a secret
		}
		return cairn.Errorf(cairn.ErrUnavailable, "advance.start: %w", err)
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, 1<<16) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return cairn.Errorf(cairn.ErrUnavailable, "advance.start: response with status %s", resp.Status)
	}
	return nil
}
