package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/redis/go-redis/v9"
)

// oldestServer is the oldest supported major version of the server.
const oldestServer = 7

// facts are the server's answer to INFO, by name.
type facts map[string]string

// learn asks a server for its facts.
func learn(ctx context.Context, server *redis.Client) (facts, error) {
	text, err := server.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	return readFacts(text), nil
}

func readFacts(text string) facts {
	all := facts{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// check refuses a server that cannot keep sessions.
func (f facts) check(doing string) error {
	major, _, _ := strings.Cut(f["redis_version"], ".")
	version, err := strconv.Atoi(major)
	policy := f["maxmemory_policy"]
	switch {
	case err != nil || version < oldestServer:
		return cairn.Errorf(cairn.ErrSchema, "%s: the server has version %q, need at least %d", doing, f["redis_version"], oldestServer)
	case f["role"] == "slave":
		return cairn.Errorf(cairn.ErrUnavailable, "%s: the server is a read-only replica: %w", doing, errReplica)
	case strings.HasPrefix(policy, "allkeys") && f["maxmemory"] != "0":
		return cairn.Errorf(cairn.ErrInvalid, "%s: maxmemory-policy is %q, so the server could lose sessions; set it to noeviction: %w", doing, policy, errEvicts)
	}
	return nil
}

// errEvicts is the error of a server that may evict sessions.
var errEvicts = errors.New("it evicts keys that do not expire")

// greet connects to the first server that answers, and checks it. It opens the client of a cluster if that server is a
// node of one.
func (s *Store) greet(ctx context.Context, at *address) (err error) {
	if at.master != "" {
		if err := at.askSentinels(ctx); err != nil {
			return s.fault(ctx, at.doing(), err)
		}
		client := at.throughSentinel()
		if err = s.meet(ctx, at, client); err != nil {
			client.Close()
		}
		return err
	}
	for _, seed := range at.seeds {
		client := at.one(seed)
		if err = s.meet(ctx, at, client); err == nil {
			return nil
		}
		client.Close()
		if !at.passing(err) {
			return err
		}
	}
	return err
}

// meet takes the server of a client, or the cluster that it is a node of.
func (s *Store) meet(ctx context.Context, at *address, client *redis.Client) error {
	found, err := learn(ctx, client)
	switch {
	case unpermitted(err):
		return s.forbidden(at.doing(), []right{{"run INFO", "+info"}})
	case err != nil:
		return s.fault(ctx, at.doing(), err)
	case found["redis_mode"] == "sentinel":
		return cairn.Invalid("url", "names a Sentinel; use redis-sentinel://HOST:PORT/0?master=NAME")
	case found["redis_mode"] != "cluster" && at.master == "" && !at.lone():
		return cairn.Invalid("url", "has several addresses, but the first server is not a cluster node; for Sentinel use redis-sentinel://HOST:PORT/0?master=NAME")
	case found["redis_mode"] != "cluster":
		s.client = client
		return found.check(at.doing())
	}
	client.Close()
	s.failsOver = true
	cluster := at.ofCluster()
	s.client = cluster
	if err := s.inspect(ctx, at.doing()); err != nil && !away(err) { // a node that is away is retried when it is used
		cluster.Close()
		return err
	}
	return nil
}

// inspect checks the server, or each primary of a cluster.
func (d *database) inspect(ctx context.Context, doing string) error {
	return d.everyServer(ctx, func(ctx context.Context, server *redis.Client) error {
		found, err := learn(ctx, server)
		if err != nil {
			return d.fault(ctx, doing, err)
		}
		return found.check(doing)
	})
}

// Health repeats the checks of Open, since an operator may have changed the server. The server must be reachable,
// accept writes and not evict sessions, and the user must have every right that the store needs. The error names the
// fault. Health takes a round trip or two to each server.
func (s *Store) Health(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	const doing = "check the server"
	if err := s.inspect(ctx, doing); err != nil {
		return err
	}
	return s.checkRights(ctx, doing)
}

// inspectEvery is about how often a store inspects its server.
const inspectEvery = time.Minute

// startWatch has the store inspect its server, about as often as every says, until it is closed.
func (s *Store) startWatch(every time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	s.unwatch = cancel
	s.watching.Go(func() {
		for {
			timer := time.NewTimer(every/2 + rand.N(every))
			select {
			case <-timer.C:
				s.warn(ctx)
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	})
}

// warn logs that the server may evict sessions. An operator may have changed its policy.
func (s *Store) warn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectEvery/4)
	defer cancel()
	if err := s.inspect(ctx, "check the server"); errors.Is(err, errEvicts) {
		s.logger().ErrorContext(ctx, "redis server may evict sessions; set maxmemory-policy to noeviction", "error", err)
	}
}

// logger returns the logger of the options.
func (d *database) logger() *slog.Logger {
	if d.opts.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.opts.Logger
}
