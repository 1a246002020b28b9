package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/internal/shared"
)

// Options tune a Handler. Either Authenticate or AllowUnauthenticated must be set.
type Options struct {
	// Authenticate identifies the caller of a request. See [Tokens].
	Authenticate Authenticator
	// AllowUnauthenticated serves every caller as an administrator without a name. It is for a server that only
	// trusted programs reach.
	AllowUnauthenticated bool
	// Unready returns the treatment of a turn of an agent if the session cannot take it at once and the request does
	// not say; nil means that the turn is refused. It does not apply to a message that replaces an earlier one.
	Unready func(agent string) Unready
	// Threads returns how the sessions of a chat with an agent follow each other; nil means the zero value, which keeps
	// one session until it expires.
	Threads func(agent string) Threads
	// SignIn lets browsers exchange their credentials for a cookie; nil means that no cookie is accepted.
	SignIn *SignIn
	// Advance has the server drive runs step by step on request; nil means that it does not.
	Advance *Advance
	// Policy decides who may do what; nil means [OwnSessions].
	Policy Policy
	// Logger gets the failures whose reason is not disclosed to clients; nil is silent.
	Logger *slog.Logger
	// Observer is notified of requests and streams; nil means none. Package server/metrics has one for Prometheus.
	Observer Observer
	// Origins are the origins of pages, such as "https://app.example.com", that may call the server in addition to
	// pages of its own host; nil means none.
	Origins []string

	// URL is the address under which clients reach the handler, such as "https://example.com/agents". The addresses
	// of files begin with it, and pages of its origin may call the server. If it is empty both are derived from each
	// request, which is wrong behind a proxy that changes hosts or paths.
	URL string

	// MaxBody is the maximum size of a request body in bytes; 0 means 4 MiB. A chat client posts the whole
	// conversation. Only its last message and the members outside of the list of messages count for this limit.
	MaxBody int64
	// MaxChatBody is the maximum size of a chat client's post in bytes; 0 means 64 MiB. It is at least MaxBody. Memory is
	// taken for MaxBody only.
	MaxChatBody int64
	// MaxValues is the maximum number of JSON values in a request body, those within other values included; 0 means
	// 30,000, a negative value any number. A value can take a hundred times the memory of its text.
	MaxValues int
	// StreamsPerUser is how many streams one user may have open at a time; 0 means 20, a negative value means no
	// limit. All requests without a user count as one user's.
	StreamsPerUser int
	// RequestsPerMinute is how many requests one user may make per minute, on average; 0 means 600, a negative
	// value means no limit. A tenth of it may come in one burst.
	RequestsPerMinute int
	// RunsPerUser is how many sessions of one user may have a turn under way when another session's turn is started or
	// retried; 0 means no limit. It counts the store's sessions, so it holds for all processes together, but not
	// exactly for concurrent requests. Resumed and queued turns are not refused, nor are turns of requests without a
	// user.
	RunsPerUser int
	// ReadTimeout is how long reading the body of a request may take; 0 means 30 seconds. The ReadHeaderTimeout of
	// [http.Server] covers the time before the body.
	ReadTimeout time.Duration
	// KeepAlive is how long a stream may be silent before a comment is sent; 0 means 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout is how long a client may take to read one event of a stream, or 64 KiB of another response,
	// before it is disconnected; 0 means 30 seconds.
	WriteTimeout time.Duration
}

const (
	maxBody           = 4 << 20
	maxChatBody       = 64 << 20
	maxValues         = 30_000
	readTimeout       = 30 * time.Second
	streamsPerUser    = 20
	requestsPerMinute = 600
)

// Handler serves an engine. It is safe for concurrent use; any number of handlers, in any number of processes, may
// serve the sessions of one store.
type Handler struct {
	eng     *engine.Engine
	opts    Options
	mux     *http.ServeMux
	protect *http.CrossOriginProtection
	origins map[string]bool
	methods string // those of the routes, for preflight requests
	users   *users
	// failures counts failed sign-ins by address.
	failures *users
	openAPI  func() (json.RawMessage, error) // made when it is first requested, which takes some time
	fileKey  atomic.Pointer[[]byte]          // see signingKey

	frames  shared.Logs
	large   chan struct{}   // a place for each large body at work
	leaving atomic.Bool     // set by LameDuck and Drain
	ctx     context.Context // cancelled by Drain
	stop    context.CancelFunc
}
