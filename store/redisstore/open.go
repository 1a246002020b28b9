package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// schemaVersion is the version of the keys' layout.
	schemaVersion = 6
	// clusterBuckets is the number of buckets of a prefix that is first used on a cluster.
	clusterBuckets = 64
)

var (
	scriptLayout = alone("layout", "open", reads)
	scriptSchema = alone("schema", "open", grows)
)

// Open connects to the server at a URL:
//
//   - redis://user:password@host:6379/0, or rediss:// with TLS, or unix:///path/to/socket?db=0.
//   - For a cluster, any of its nodes. Further nodes, for when that one is away, follow as ?addr=host:port&addr=….
//   - redis-sentinel://user:password@host:26379/0?master=NAME, or rediss-sentinel:// with TLS, for a primary that
//     Sentinel watches. Further Sentinels follow as &addr=host:port. The user and password belong to Redis; for
//     the Sentinels, set the parameters sentinel_username and sentinel_password.
//
// During a failover Open tries again for Options.RetryFor. It fails with ErrUnavailable if the user lacks a right that
// the store needs; the error names it. The first Open with a prefix writes the layout's version under it. If the keys
// have another version, Open fails with ErrSchema and changes nothing; it opens the keys of a newer layout if they say
// that this program may use them.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, at, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.retrying(ctx, at, func(ctx context.Context) error { return s.prepare(ctx, at) }); err != nil {
		s.client.Close()
		return nil, err
	}
	s.startWatch(inspectEvery)
	return s, nil
}

// Migrations reports whether the keys under a prefix have a layout. It changes nothing. It returns the errors of Open.
func Migrations(ctx context.Context, url string, opts *Options) ([]driver.Migration, error) {
	s, at, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer s.client.Close()
	list := []driver.Migration{{Version: schemaVersion, Name: "layout"}}
	found, err := s.layout(ctx, at)
	if err != nil || found == nil {
		return list, err
	}
	list[0].Applied = true
	return list, s.checkLayout(at, found)
}

// connect returns a store for the server, cluster or Sentinels at a URL. The caller sets up the layout of the keys.
func connect(ctx context.Context, url string, opts *Options) (*Store, *address, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	at, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	if o.Connections > 0 {
		at.options.PoolSize = o.Connections
	}
	logTo(o.Logger)
	s := &Store{url: url, database: database{opts: o, user: at.user(), failsOver: !at.lone(), closed: make(chan struct{})}}
	s.expire = func(ctx context.Context, root string) error {
		_, err := s.Remove(ctx, root, driver.Expired)
		return err
	}
	s.log = &Log{db: &s.database, listener: &s.listener}
	s.listener.db, s.listener.log, s.listener.origin = &s.database, s.log, newOrigin()
	s.listener.silenced = make(chan struct{}, 1)
	if err := s.retrying(ctx, at, func(ctx context.Context) error { return s.greet(ctx, at) }); err != nil {
		return nil, nil, err
	}
	return s, at, nil
}

// retrying repeats do while a server is starting or is being replaced, for up to RetryFor.
func (s *Store) retrying(ctx context.Context, at *address, do func(context.Context) error) error {
	if s.opts.RetryFor < 0 {
		return do(ctx)
	}
	within, cancel := context.WithTimeout(ctx, s.opts.RetryFor)
	defer cancel()
	var last error
	for {
		err := do(within)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case within.Err() == nil && !at.passing(err):
			return err
		case within.Err() == nil || last == nil:
			last = err
		}
		if within.Err() == nil && s.pause(within) {
			continue
		}
		if errors.Is(last, context.DeadlineExceeded) {
			return cairn.Errorf(cairn.ErrUnavailable, "%s: cannot reach the server within %s", at.doing(), s.opts.RetryFor)
		}
		return cairn.Errorf(cairn.ErrUnavailable, "%w; gave up after %s", last, s.opts.RetryFor)
	}
}

// prepare checks the user's rights and the layout of the keys.
func (s *Store) prepare(ctx context.Context, at *address) error {
	if err := s.checkRights(ctx, at.doing()); err != nil {
		return err
	}
	found, err := s.layout(ctx, at)
	if err == nil && found == nil {
		buckets := 1
		if s.cluster() {
			buckets = clusterBuckets
		}
		command := scriptSchema.command(s.schemaKey(), schemaVersion, buckets)
		if err = s.fault(ctx, at.doing(), s.eval(ctx, scriptSchema, command).Err()); err == nil {
			found, err = s.layout(ctx, at)
		}
	}
	if err != nil {
		return err
	}
	if len(found) != 3 || found[1] < 1 {
		return cairn.Errorf(cairn.ErrSchema, "%s: key %s belongs to another application", at.doing(), s.schemaKey())
	}
	s.buckets, s.keys = nil, nil
	for i := range found[1] {
		bucket := fmt.Sprintf("%s:{%d}:", s.opts.Prefix, i)
		s.buckets, s.keys = append(s.buckets, bucket), append(s.keys, bucket)
	}
	return s.checkLayout(at, found)
}

// schemaKey is the key of the layout's version.
func (s *Store) schemaKey() string { return s.opts.Prefix + ":schema" }

// layout reads the version of the keys' layout, the number of buckets and the version of the oldest programs that may
// use the keys. It returns nil if the prefix was never used.
func (s *Store) layout(ctx context.Context, at *address) ([]int64, error) {
	found, err := s.eval(ctx, scriptLayout, scriptLayout.command(s.schemaKey())).Int64Slice()
	if err != nil {
		return nil, s.fault(ctx, at.doing(), err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found, nil
}

// checkLayout refuses keys of a newer layout that do not say that this program may use them, and keys of an older one,
// whose records have another format.
func (s *Store) checkLayout(at *address, found []int64) error {
	switch version, oldest := found[0], found[2]; {
	case version < schemaVersion:
		return cairn.Errorf(cairn.ErrSchema, "%s: the keys of %q have schema version %d, this program supports %d: an older program wrote them; export them with that program and import them here, or set another Options.Prefix",
			at.doing(), s.opts.Prefix, version, schemaVersion)
	case version > schemaVersion && oldest > schemaVersion:
		return cairn.Errorf(cairn.ErrSchema, "%s: the keys of %q have schema version %d, this program supports up to %d: use a newer program",
			at.doing(), s.opts.Prefix, version, schemaVersion)
	}
	return nil
}
