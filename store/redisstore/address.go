package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/cairn-agents/cairn"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// address is where the server is, or a cluster, or the Sentinels that know where the server is.
type address struct {
	options *redis.Options
	seeds   []string // addresses of servers, or of Sentinels
	// master is the name of the primary that the Sentinels watch; empty without Sentinel.
	master                             string
	sentinelUsername, sentinelPassword string
}

const sentinelSuffix = "-sentinel"

// parse reads a URL. The error does not repeat it, since it may hold a password.
func parse(text string) (*address, error) {
	if text == "" {
		return nil, cairn.Invalid("url", "is empty")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, cairn.Invalid("url", "must be a URL")
	}
	if u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return nil, cairn.Invalid("url", "the path has an @; in a user or password, write / as %%2F, @ as %%40 and : as %%3A")
	}
	query := u.Query()
	take := func(name string) string {
		value := query.Get(name)
		query.Del(name)
		return value
	}
	at := &address{}
	if scheme, yes := strings.CutSuffix(u.Scheme, sentinelSuffix); yes {
		at.master, at.sentinelUsername, at.sentinelPassword = take("master"), take("sentinel_username"), take("sentinel_password")
		if at.master == "" {
			return nil, cairn.Invalid("url", "must name the primary; add ?master=NAME, its name in Sentinel")
		}
		if u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "26379")
		}
		u.Scheme = scheme
	}
	more := query["addr"]
	query.Del("addr")
	if u.Scheme == "unix" && len(more) > 0 {
		return nil, cairn.Invalid("url", "must not have further addresses with a socket")
	}
	u.RawQuery = query.Encode()
	if at.options, err = redis.ParseURL(u.String()); err != nil {
		return nil, cairn.Invalid("url", "%v", err)
	}
	at.seeds = append(at.seeds, at.options.Addr)
	for _, seed := range more {
		if host, port, err := net.SplitHostPort(seed); err != nil || host == "" || port == "" {
			return nil, cairn.Invalid("url", "addr must have the form host:port")
		}
		at.seeds = append(at.seeds, seed)
	}
	o := at.options
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	if at.master != "" && o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each Sentinel and server is checked under its own name
	}
	o.Dialer = dialer(o)
	return at, nil
}

// doing says for errors what is being done.
func (at *address) doing() string {
	text := "open " + strings.Join(at.seeds, ", ")
	if at.master != "" {
		text += ", primary " + at.master
	}
	return text
}

// user returns the name of the user.
func (at *address) user() string {
	if at.options.Username == "" {
		return "default"
	}
	return at.options.Username
}

// lone reports whether the URL names one server, and no other that may know where it moved.
func (at *address) lone() bool { return at.master == "" && len(at.seeds) == 1 }

// one returns a client for one server.
func (at *address) one(seed string) *redis.Client {
	o := *at.options
	o.Addr = seed
	return redis.NewClient(&o)
}

// askSentinels checks that a Sentinel answers and knows the primary. The client itself asks again and again, and reports
// both failures as one.
func (at *address) askSentinels(ctx context.Context) (err error) {
	for _, seed := range at.seeds {
		o := *at.options
		o.Addr, o.Username, o.Password, o.DB = seed, at.sentinelUsername, at.sentinelPassword, 0
		o.MaxRetries, o.DialerRetries = -1, 1
		client := redis.NewSentinelClient(&o)
		err = client.GetMasterAddrByName(ctx, at.master).Err()
		client.Close()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, redis.Nil):
			return cairn.Invalid("url", "primary %q not found by the Sentinel at %s", at.master, seed)
		case ctx.Err() != nil:
			return err
		}
	}
	return err
}

// throughSentinel returns a client for the primary that the Sentinels name.
func (at *address) throughSentinel() *redis.Client {
	o := at.options
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: at.master, SentinelAddrs: at.seeds, SentinelUsername: at.sentinelUsername, SentinelPassword: at.sentinelPassword,
		ClientName: o.ClientName, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		PoolSize: o.PoolSize, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
}

// ofCluster returns a client for the cluster.
func (at *address) ofCluster() *redis.ClusterClient {
	o := at.options
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: at.seeds, ClientName: o.ClientName, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		PoolSize: o.PoolSize, ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
	})
}

// passing reports whether an error of Open is of a server that is starting or is being replaced. A lone address where
// nothing listens is rather a mistake in the URL.
func (at *address) passing(err error) bool {
	var unknown *net.DNSError
	nothing := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.As(err, &unknown) && unknown.IsNotFound
	if nothing {
		return !at.lone()
	}
	return away(err)
}

// errReplica is the error of a server that is a replica.
var errReplica = errors.New("it is a replica")

// away reports whether an error is of a server that is starting, is being replaced or cannot be reached.
func away(err error) bool {
	var answer redis.Error
	if errors.As(err, &answer) {
		return notYet(err) || redis.HasErrorPrefix(err, "READONLY")
	}
	var broken net.Error
	return errors.Is(err, errReplica) || errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.EPIPE)
}
