package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// MinSecret is the minimum length of a secret of [Tickets], in bytes.
const MinSecret = 32

// Tickets issue and check tickets: references to runs that their holder may have advanced, until they expire. A ticket
// is printable ASCII without spaces. It shows the ids in it to its holder, who cannot change it. It gives no access to
// the session. Tickets are safe for concurrent use.
type Tickets struct{ secrets []string }

// NewTickets returns Tickets that are signed with a secret of at least MinSecret bytes. Tickets signed with one of the
// earlier secrets are accepted as well, so that secrets can be replaced while tickets are in use: give every process
// the new one as an earlier secret first.
func NewTickets(secret string, earlier ...string) (*Tickets, error) {
	t := &Tickets{secrets: append([]string{secret}, earlier...)}
	for _, s := range t.secrets {
		if len(s) < MinSecret {
			return nil, cairn.Invalid("secret", "must have at least %d bytes", MinSecret)
		}
	}
	return t, nil
}

// ErrTicket is the error of a text that is not a ticket, or was signed with another secret.
var ErrTicket = errors.New("ticket is not valid")

// ErrTicketExpired is the error of a ticket that has expired.
var ErrTicketExpired = errors.New("ticket has expired")

// signed is the signed part of a ticket.
type signed struct {
	Run     Run   `json:"run"`
	Expires int64 `json:"expires"` // seconds since 1970
}

// Issue returns a ticket for a run that expires after ttl. The process's clock decides.
func (t *Tickets) Issue(run Run, ttl time.Duration) string {
	raw, err := json.Marshal(signed{run, time.Now().Add(ttl).Unix()})
	if err != nil {
		panic(err) // ids, numbers and a time of the store always encode
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(t.secrets[0], text))
}

// Run returns the run of a ticket. The error is ErrTicket or ErrTicketExpired.
func (t *Tickets) Run(ticket string) (Run, error) {
	text, sum, _ := strings.Cut(ticket, ".")
	got, err := base64.RawURLEncoding.DecodeString(sum)
	valid := false
	for _, secret := range t.secrets {
		valid = valid || hmac.Equal(got, mac(secret, text))
	}
	if err != nil || !valid {
		return Run{}, ErrTicket
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var s signed
	if err != nil || json.Unmarshal(raw, &s) != nil {
		return Run{}, ErrTicket
	}
	if time.Now().Unix() >= s.Expires {
		return Run{}, ErrTicketExpired
	}
	return s.Run, nil
}

// mac signs a text with a secret, which is used for nothing else.
func mac(secret, text string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("cairn ticket\x00" + text)) // never fails
	return h.Sum(nil)
}
