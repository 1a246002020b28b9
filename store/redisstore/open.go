package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// schemaVersion is the version of the keys' layout.
	schemaVersion = 4
	// clusterBuckets is the number of buckets of a prefix that is first used on a cluster.
	clusterBuckets = 64
	// oldestServer is the oldest supported major version of the server.
	oldestServer = 7
)

var scriptSchema = alone("schema", "open")

// Open connects to the server at a URL, such as redis://user:password@host:6379/0, rediss:// with TLS, or
// unix:///path/to/socket?db=0. For a cluster, the URL names any of its nodes. The first Open with a prefix writes the
// layout's version under it. If the keys have another version, Open fails with ErrSchema and changes nothing.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, at, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	if err := s.layout(ctx, at); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

// Migrations reports whether the keys under a prefix have a layout. It changes nothing. Its errors are those of Open.
func Migrations(ctx context.Context, url string, opts *Options) ([]store.Migration, error) {
	s, at, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer s.client.Close()
	list := []store.Migration{{Version: schemaVersion, Name: "layout"}}
	version, err := s.client.HGet(ctx, s.schemaKey(), "version").Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return list, nil
	case err != nil:
		return nil, s.fault(ctx, at.doing, err)
	}
	list[0].Applied = true
	return list, s.checkLayout(at, version)
}

// place describes the server at a URL.
type place struct {
	doing   string // for errors
	buckets int    // number of buckets of a prefix that is first used there
}

// connect returns a store for the server or cluster at a URL. The caller sets up the layout of the keys.
func connect(ctx context.Context, url string, opts *Options) (*Store, place, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, place{}, err
	}
	parsed, err := parse(url)
	if err != nil {
		return nil, place{}, err
	}
	if o.Connections > 0 {
		parsed.PoolSize = o.Connections
	}
	logTo(o.Logger)
	parsed.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	parsed.ContextTimeoutEnabled, parsed.DisableIdentity = true, true
	parsed.Dialer = dialer(parsed)
	s := &Store{url: url, database: database{opts: o, client: redis.NewClient(parsed), closed: make(chan struct{})}}
	s.expire = func(ctx context.Context, root string) error {
		_, err := s.Remove(ctx, root, store.Expired)
		return err
	}
	s.log = &Log{db: &s.database, listener: &s.listener}
	s.listener.db, s.listener.log, s.listener.origin = &s.database, s.log, newOrigin()
	at, err := s.greet(ctx, parsed)
	if err != nil {
		s.client.Close()
		return nil, place{}, err
	}
	return s, at, nil
}

// parse reads a URL. The error does not repeat it, since it may hold a password.
func parse(text string) (*redis.Options, error) {
	if text == "" {
		return nil, cairn.Invalid("url", "is empty")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, cairn.Invalid("url", "is not a URL")
	}
	if u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return nil, cairn.Invalid("url", "the path has an @; in a user or password, write / as %%2F, @ as %%40 and : as %%3A")
	}
	opts, err := redis.ParseURL(text)
	if err != nil {
		return nil, cairn.Invalid("url", "%v", err)
	}
	return opts, nil
}

// greet checks the server's version, role and eviction policy. On a cluster it switches to a cluster client.
func (s *Store) greet(ctx context.Context, opts *redis.Options) (at place, err error) {
	at = place{doing: "open " + opts.Addr, buckets: 1}
	text, err := s.client.Info(ctx, "everything").Result()
	if err != nil {
		return at, s.fault(ctx, at.doing, err)
	}
	info := facts(text)
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, err := strconv.Atoi(major)
	policy := info["maxmemory_policy"]
	switch {
	case err != nil || version < oldestServer:
		return at, cairn.Errorf(cairn.CodeSchema, "%s: the server has version %q; at least %d is needed", at.doing, info["redis_version"], oldestServer)
	case info["role"] == "slave":
		return at, cairn.Errorf(cairn.CodeUnavailable, "%s: the server is a read-only replica", at.doing)
	case strings.HasPrefix(policy, "allkeys") && info["maxmemory"] != "0":
		return at, cairn.Errorf(cairn.CodeInvalid, "%s: maxmemory-policy is %q, so the server would lose sessions; set it to noeviction", at.doing, policy)
	}
	if info["redis_mode"] == "cluster" {
		at.buckets = clusterBuckets
		s.client.Close()
		s.client = redis.NewClusterClient(clusterOptions(opts))
	}
	return at, nil
}

// facts parses the answer of INFO.
func facts(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// clusterOptions returns the options of a cluster's client, from those of one node.
func clusterOptions(o *redis.Options) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: []string{o.Addr}, ClientName: o.ClientName, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		PoolSize: o.PoolSize, ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
	}
}

// schemaKey is the key of the layout's version.
func (s *Store) schemaKey() string { return s.opts.Prefix + ":schema" }

// layout reads the version of the keys' layout and the number of buckets. The first process that opens the prefix
// writes them.
func (s *Store) layout(ctx context.Context, at place) error {
	list, err := s.eval(ctx, scriptSchema, scriptSchema.command(s.schemaKey(), schemaVersion, at.buckets)).Int64Slice()
	if err != nil {
		return s.fault(ctx, at.doing, err)
	}
	if len(list) != 2 || list[1] < 1 {
		return cairn.Errorf(cairn.CodeSchema, "%s: the key %s is not this store's", at.doing, s.schemaKey())
	}
	for i := range list[1] {
		bucket := fmt.Sprintf("%s:{%d}:", s.opts.Prefix, i)
		s.buckets, s.keys = append(s.buckets, bucket), append(s.keys, bucket)
	}
	return s.checkLayout(at, list[0])
}

// checkLayout refuses keys that a newer program wrote, and keys from before the first release, whose records have
// another format.
func (s *Store) checkLayout(at place, version int64) error {
	switch {
	case version < schemaVersion:
		return cairn.Errorf(cairn.CodeSchema, "%s: the keys of %q have schema version %d, this program knows %d: copy the sessions to another store with the program that wrote them, and from there with this one",
			at.doing, s.opts.Prefix, version, schemaVersion)
	case version > schemaVersion:
		return cairn.Errorf(cairn.CodeSchema, "%s: the keys of %q have schema version %d, this program knows up to %d: use a newer program",
			at.doing, s.opts.Prefix, version, schemaVersion)
	}
	return nil
}
