package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn/engine"
)

// Options tune a Handler. Either Authenticate or AllowUnauthenticated must be set.
type Options struct {
	// Authenticate says who makes a request. See [Tokens].
	Authenticate Authenticator
	// AllowUnauthenticated serves everybody as an administrator without a name. It is for a server that only trusted
	// programs reach.
	AllowUnauthenticated bool
	// Unready says what is done with a turn of an agent on a session that cannot take it at once, unless the request says; nil
	// means that it is refused. It does not hold for a message that takes the place of an earlier one.
	Unready func(agent string) Unready
	// Policy decides who may do what; nil means [OwnSessions].
	Policy Policy
	// Logger gets the failures whose reason clients do not learn; nil is silent.
	Logger *slog.Logger
	// Observer is notified of requests and streams; nil means none. Package server/metrics has one for Prometheus.
	Observer Observer
	// Origins are the origins of pages, as "https://app.example.com", that may call the server from another host's browser
	// tab; without any, only pages of the server's own host may.
	Origins []string

	// URL is the address under which clients reach the handler, as "https://example.com/agents". It begins the addresses of
	// files. Empty means what a request says, which a proxy that changes paths makes wrong.
	URL string

	// MaxBody is the most bytes that the body of a request may have; 0 means 4 MiB.
	MaxBody int64
	// StreamsPerUser is how many streams one user may have open at a time; 0 means 20, a negative value any number. All
	// requests without a user count as one user's.
	StreamsPerUser int
	// RequestsPerMinute is how many requests one user may make per minute, on average; 0 means 600, a negative value any
	// number. A tenth of it may come at once.
	RequestsPerMinute int
	// ReadTimeout is how long the body of a request may take; 0 means 30 seconds. What comes before it is for the
	// ReadHeaderTimeout of [http.Server].
	ReadTimeout time.Duration
	// KeepAlive is how long a stream may be silent before it carries a comment; 0 means 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout is how long a client may take to read an event of a stream, or 64 KiB of another answer, before it is
	// disconnected; 0 means 30 seconds.
	WriteTimeout time.Duration
}

const (
	maxBody           = 4 << 20
	readTimeout       = 30 * time.Second
	streamsPerUser    = 20
	requestsPerMinute = 600
)

// Handler serves an engine. It is safe for concurrent use; any number of handlers, in any number of processes, may serve
// the sessions of one store.
type Handler struct {
	eng     *engine.Engine
	opts    Options
	mux     *http.ServeMux
	protect *http.CrossOriginProtection
	origins map[string]bool
	users   *users
	openAPI json.RawMessage
	fileKey atomic.Pointer[[]byte] // see signingKey

	ctx  context.Context // ends when Drain is called
	stop context.CancelFunc
}
