package host_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
)

var run = host.Run{Position: host.Position{SessionID: "acme::a/b ü", Agent: "bot", RunID: "run_1", Token: 1 << 50, Step: 3}, RootID: "acme::a/b ü", Turn: 2}

const secret, other = "0123456789abcdef0123456789abcdef", "abcdef0123456789abcdef0123456789"

func tickets(t *testing.T, secret string, earlier ...string) *host.Tickets {
	t.Helper()
	list, err := host.NewTickets(secret, earlier...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A ticket names its run until it expires, also while its secret is being replaced.
func TestTickets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := tickets(t, secret)
		ticket := old.Issue(run, time.Hour)
		for name, c := range map[string]struct {
			by     *host.Tickets
			ticket string
			want   error
		}{
			"the same secret":    {old, ticket, nil},
			"an earlier secret":  {tickets(t, other, secret), ticket, nil},
			"another secret":     {tickets(t, other), ticket, host.ErrTicket},
			"nothing":            {old, "", host.ErrTicket},
			"no signature":       {old, strings.Split(ticket, ".")[0], host.ErrTicket},
			"an empty signature": {old, strings.Split(ticket, ".")[0] + ".", host.ErrTicket},
			"another run":        {old, base64.RawURLEncoding.EncodeToString([]byte(`{"run":{"run_id":"x"},"expires":9999999999}`)) + "." + strings.Split(ticket, ".")[1], host.ErrTicket},
			"a cut ticket":       {old, ticket[1:], host.ErrTicket},
			"a longer ticket":    {old, ticket + "A", host.ErrTicket},
		} {
			got, err := c.by.Run(c.ticket)
			if !errors.Is(err, c.want) || err == nil && got != run {
				t.Errorf("%s: %+v, error %v, want %v", name, got, err, c.want)
			}
		}
		testclock.Advance(time.Hour)
		if _, err := old.Run(ticket); !errors.Is(err, host.ErrTicketExpired) {
			t.Errorf("after an hour: error %v", err)
		}
	})
}

func TestNewTicketsRefusesShortSecrets(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{{""}, {secret[1:]}, {secret, ""}} {
		_, err := host.NewTickets(secrets[0], secrets[1:]...)
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != "secret" {
			t.Errorf("%q: error %v", secrets, err)
		}
	}
}

func ExampleNewTickets() {
	tickets, err := host.NewTickets("32 random bytes, from a key store")
	if err != nil {
		log.Fatal(err)
	}
	ticket := tickets.Issue(host.Run{Position: host.Position{SessionID: "session-1", RunID: "run-1"}}, time.Hour)
	run, err := tickets.Run(ticket)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.SessionID)
	// Output: session-1
}
