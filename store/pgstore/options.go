package pgstore

import (
	"errors"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Schema is the name of the database schema that holds the tables, at most 48 bytes; empty means "cairn".
	Schema string
	// NoMigrate leaves the schema unchanged: Open fails unless it is up to date. It is for programs whose database
	// account may not create tables; see Migrate.
	NoMigrate bool
	// SimpleProtocol sends every statement whole, without preparing it on the server, as required by proxies that pool
	// connections by transaction. Each statement then costs more. Behind such a proxy no connection can listen, so see
	// ListenURL. It is also on if the URL or the pool sets default_query_exec_mode=simple_protocol; with New the pool
	// must.
	SimpleProtocol bool
	// ListenURL is the database of the one connection that listens for writes of other processes; empty means the
	// database of the other connections. With SimpleProtocol and no ListenURL the store polls.
	ListenURL string
	// PollInterval is how often the store polls for writes of other processes, on average, while a caller follows a log
	// or watches stop requests; 0 means 1 s, or 50 ms where no connection can listen. While the listening connection is
	// up, polling finds only writes whose notification was lost, as when the writer died right after its commit.
	PollInterval time.Duration
	// RetryFor is how long an operation is retried while the server cannot be reached, as during a failover; 0 means 10
	// s, negative means never. An operation that may have been applied is retried only if that cannot apply it twice.
	RetryFor time.Duration
	// Collectors is how many statements that write steps run concurrently. Steps of other sessions that arrive while
	// all of them run, or fewer than one of them has, share the next statement, at a fraction of the cost for the
	// server and this process. 0 means 2.
	// More are better where the server has many processors, or an answer takes milliseconds. Negative means that each
	// step has a statement of its own.
	Collectors int
	// ExecTimeout limits the total duration of the statements that the tools of one step have recorded with [Exec]; 0
	// means 5 s. While they run, the session's row is locked and one connection is in use; commits to other sessions
	// continue, also in the same tree: the step's events are appended after the statements.
	ExecTimeout time.Duration
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means driver.DefaultMaxEvent.
	MaxEvent int
	// LazyEvents acknowledges appended events before they are on disk, which is much faster where the disk is slow. The
	// next commit makes them durable, and they survive the death of this process before that. A server that crashes
	// before that commit loses them, even though they may have been read, and assigns their sequences to other events.
	// The events of a commit are as durable as the commit.
	LazyEvents bool
}

// defaultConnections lets the server flush several commits to disk at once.
const defaultConnections = 16

// defaultCollectors lets the server execute one statement while it flushes another one to disk.
const defaultCollectors = 2

// maxSchema leaves room for the prefix of notification channels: an identifier has at most 63 bytes.
const maxSchema = 48

// withDefaults returns a copy of o with the defaults filled in, or the error of an invalid option. simple reports
// whether the pool uses the simple protocol.
func (o *Options) withDefaults(simple bool) (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Schema == "" {
		out.Schema = "cairn"
	}
	switch {
	case out.SimpleProtocol && !simple:
		return out, cairn.Invalid("simple_protocol", "not supported with a pool; set its DefaultQueryExecMode")
	case len(out.Schema) > maxSchema:
		return out, cairn.Invalid("schema", "%q is too long (max %d bytes)", out.Schema, maxSchema)
	case !validName(out.Schema):
		return out, cairn.Invalid("schema", "%q must be letters, digits, _ or -, not beginning with pg_", out.Schema)
	case out.PollInterval < 0:
		return out, cairn.Invalid("poll_interval", "%s is negative", out.PollInterval)
	case out.ExecTimeout < 0:
		return out, cairn.Invalid("exec_timeout", "%s is negative", out.ExecTimeout)
	case out.MaxEvent < 0:
		return out, cairn.Invalid("max_event", "%d is negative", out.MaxEvent)
	}
	out.SimpleProtocol = simple
	if out.PollInterval == 0 {
		out.PollInterval = time.Second
		if !out.canListen() {
			out.PollInterval = 50 * time.Millisecond
		}
	}
	if out.RetryFor == 0 {
		out.RetryFor = 10 * time.Second
	}
	if out.ExecTimeout == 0 {
		out.ExecTimeout = 5 * time.Second
	}
	if out.MaxEvent == 0 {
		out.MaxEvent = driver.DefaultMaxEvent
	}
	if out.Collectors == 0 {
		out.Collectors = defaultCollectors
	}
	return out, nil
}

func (o *Options) canListen() bool { return !o.SimpleProtocol || o.ListenURL != "" }

func parseURL(field, url string) (*pgxpool.Config, error) {
	if url == "" {
		return nil, cairn.Invalid(field, "is empty")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, cairn.Invalid(field, "%s", unreadable(err))
	}
	if strings.HasPrefix(url, "postgres") && strings.Contains(config.ConnConfig.Database, "@") {
		return nil, cairn.Invalid(field, "the database name has an @; in a user or password, write / as %%2F, @ as %%40 and : as %%3A")
	}
	return config, nil
}

// unreadable says why a connection string cannot be read, without repeating any of it that may be part of the password.
func unreadable(err error) string {
	var parsing *pgconn.ParseConfigError
	if !errors.As(err, &parsing) {
		return "invalid connection string"
	}
	for _, form := range []string{"failed to parse as URL", "failed to parse as keyword/value"} {
		if strings.Contains(parsing.Error(), form) {
			return form + ": special characters of a user or password are written as in %2F in a URL, and between '' in key=value form"
		}
	}
	silent := *parsing
	silent.ConnString = ""
	return strings.TrimPrefix(oneLine{&silent}.Error(), "cannot parse ``: ")
}
