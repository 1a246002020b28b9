package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// SignIn lets browsers exchange their credentials for a cookie: POST /console/session. The cookie holds a random id. The
// store keeps the id's digest, with the principal. So every process on the store accepts it until it expires or is
// revoked, and the credentials themselves are not kept. A change of the principal's roles counts from the next sign-in on.
//
// A page cannot read the cookie, and browsers send it to the server's own pages only. A request with the cookie that
// changes anything must also come from a page of the server's own origin.
type SignIn struct {
	// Lifetime is how long a sign-in lasts; 0 means 8 hours. It ends earlier if the principal's Expires is earlier.
	Lifetime time.Duration
	// Records keeps the sign-ins; nil means the records of the engine's store. A server with records of its own, such as
	// the records of a memstore.Store, accepts no sign-in of another process, and signing in does not write to the store.
	Records store.Records
	// Cookie is the name of the cookie; empty means cairn_session. Browsers send a cookie to every port of a host, so
	// servers on several ports need names that differ.
	Cookie string
}

const (
	// signInCookie is the usual name of the cookie, and signInPrefix that of the records' keys.
	signInCookie = "cairn_session"
	signInPrefix = "signin/"
	signInTime   = 8 * time.Hour
	// failuresPerMinute is how many sign-ins from one address may fail per minute, on average.
	failuresPerMinute = 60
)

// complete checks the options and fills in defaults.
func (s *SignIn) complete(records store.Records) (*SignIn, error) {
	switch {
	case s.Lifetime < 0 || s.Lifetime > store.MaxRecordTTL:
		return nil, cairn.Invalid("SignIn", "Lifetime must not be negative or longer than %s", store.MaxRecordTTL)
	case s.Records == nil && records == nil:
		return nil, cairn.Invalid("SignIn", "requires a store that keeps records")
	}
	out := *s
	out.Cookie = cmp.Or(out.Cookie, signInCookie)
	if cookie := (&http.Cookie{Name: out.Cookie}); cookie.Valid() != nil {
		return nil, cairn.Invalid("SignIn", "Cookie %q is not a valid name", out.Cookie)
	}
	if out.Records == nil {
		out.Records = records
	}
	if out.Lifetime == 0 {
		out.Lifetime = signInTime
	}
	return &out, nil
}

// signedIn is the record of a sign-in: the principal, as its credentials named it.
type signedIn struct {
	User    string    `json:"user,omitempty"`
	Name    string    `json:"name,omitempty"`
	Roles   []Role    `json:"roles,omitempty"`
	Tenant  string    `json:"tenant,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

func signInKey(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return signInPrefix + hex.EncodeToString(sum[:])
}

// owner returns the id of the user that a sign-in belongs to.
func (s *signedIn) owner() string {
	if s.Tenant == AllTenants {
		return s.User
	}
	return ids.In(s.Tenant, s.User)
}

// fromCookie returns the principal that has signed in with the request's cookie; nil if there is none. address is the
// address of the server, if it has one.
func (s *SignIn) fromCookie(r *http.Request, address string) (*Principal, error) {
	cookie, err := r.Cookie(s.Cookie)
	if err != nil || cookie.Value == "" || r.Header.Get("Authorization") != "" {
		return nil, nil
	}
	rec, err := s.Records.Get(r.Context(), store.UserRecords, signInKey(cookie.Value))
	if errors.Is(err, cairn.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, &cairn.Error{Code: cairn.ErrUnavailable, Message: "cannot authenticate the request", Cause: err}
	}
	var who signedIn
	if err := json.Unmarshal(rec.Value, &who); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "decode sign-in: %w", err)
	}
	if !safe(r.Method) && !sameOrigin(r, address) {
		return nil, &httpError{http.StatusForbidden, "cross_origin", "request with a cookie must come from a page of the server"}
	}
	return &Principal{User: who.User, Name: who.Name, Roles: who.Roles, Tenant: who.Tenant, Expires: rec.ExpiresAt}, nil
}

func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// sameOrigin reports whether a page of the server's own origin makes a request. Browsers that reach the server without
// TLS do not send Sec-Fetch-Site.
func sameOrigin(r *http.Request, address string) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || origin.Host == "" {
		return false
	}
	own, err := url.Parse(address)
	return origin.Host == r.Host || err == nil && own.Host != "" && origin.Host == own.Host && origin.Scheme == own.Scheme
}

// revoke ends all sign-ins of a user.
func revoke(ctx context.Context, records store.Records, user string) error {
	for rec, err := range driver.RecordsOf(ctx, records, user) {
		if err == nil && strings.HasPrefix(rec.Key, signInPrefix) {
			err = records.Delete(ctx, store.UserRecords, rec.Key, store.AnyVersion)
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return err
		}
	}
	return nil
}

// address returns the name under which failures of a client are counted: its address, or the network of an IPv6 address,
// since a client has all addresses of one.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, _ := ip.Prefix(64)
	return network.String()
}
