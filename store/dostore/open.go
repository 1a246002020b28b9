package dostore

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// storeName matches the names of stores.
var storeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Open connects to a worker. The URL is do://HOST/STORE, or do+insecure://HOST/STORE for a worker without TLS. The secret
// may be its password, as in do://:SECRET@HOST/STORE, instead of Options.Secret. Stores of different names share nothing.
// The error is ErrUnavailable if the worker cannot be reached or has another secret, and ErrSchema if it speaks another
// version of the protocol.
func Open(ctx context.Context, address string, opts *Options) (*Store, error) {
	s := &Store{database: database{clock: newClock(), done: make(chan struct{}), links: map[string]*link{}, conns: map[*connection]struct{}{}}}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.MaxEvent <= 0 {
		s.opts.MaxEvent = driver.DefaultMaxEvent
	}
	if s.opts.Connections <= 0 {
		s.opts.Connections = 512
	}
	if err := s.parse(address); err != nil {
		return nil, err
	}
	s.log = newLog(&s.database)
	s.expire = func(ctx context.Context, root string) error {
		_, err := s.Remove(ctx, root, driver.Expired)
		return err
	}
	s.woke = func(owner string) {
		if owner == allStops {
			s.stops.Raise()
		}
		s.log.woke(owner)
	}
	s.lost = func(l *link) {
		if s.log.lost(l); l == s.directory() {
			s.stops.Raise()
		}
	}
	if _, err := s.directory().connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// parse sets the worker's address, the store's name and, unless it is set, the secret.
func (d *database) parse(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return cairn.Invalid("url", "is not a URL")
	}
	scheme, ok := map[string]string{"do": "wss", "do+insecure": "ws"}[u.Scheme]
	name := strings.TrimPrefix(u.Path, "/")
	if !ok || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User.Username() != "" || !storeName.MatchString(name) {
		return cairn.Invalid("url", "must be of the form do://HOST/STORE, with letters, digits, _ and - as the store's name")
	}
	if password, ok := u.User.Password(); ok && d.opts.Secret == "" {
		d.opts.Secret = password
	}
	if d.opts.Secret == "" {
		return cairn.Invalid("secret", "is required")
	}
	d.base, d.prefix = scheme+"://"+u.Host, "/v1/"+name
	return nil
}

// Migrations reports the version of the protocol that the worker at a URL speaks, as the one migration. It returns the
// errors of Open. A worker has no tables to create: each object creates its own.
func Migrations(ctx context.Context, address string, opts *Options) ([]driver.Migration, error) {
	s, err := Open(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	return []driver.Migration{{Version: protocol, Name: "protocol", Applied: true}}, s.Close()
}
