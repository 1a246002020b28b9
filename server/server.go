package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

// New returns a handler for an engine. The error is ErrInvalid and names the option that is missing or wrong.
func New(eng *engine.Engine, opts *Options) (*Handler, error) {
	h := &Handler{eng: eng, mux: http.NewServeMux(), protect: http.NewCrossOriginProtection(), origins: map[string]bool{}, large: make(chan struct{}, largeBodies)}
	if opts != nil {
		h.opts = *opts
	}
	o := &h.opts
	switch {
	case eng == nil:
		return nil, cairn.Invalid("engine", "is required")
	case o.Authenticate == nil && !o.AllowUnauthenticated:
		return nil, cairn.Invalid("Authenticate", "is required; set AllowUnauthenticated to serve without authentication")
	case o.Authenticate != nil && o.AllowUnauthenticated:
		return nil, cairn.Invalid("AllowUnauthenticated", "must not be set with Authenticate")
	case o.SignIn != nil && o.AllowUnauthenticated:
		return nil, cairn.Invalid("SignIn", "must not be set with AllowUnauthenticated")
	case o.MaxBody < 0:
		return nil, cairn.Invalid("MaxBody", "is negative")
	case o.MaxChatBody < 0:
		return nil, cairn.Invalid("MaxChatBody", "is negative")
	case !isAddress(o.URL):
		return nil, cairn.Invalid("URL", "must be a URL such as https://example.com/agents, not %q", o.URL)
	case o.ReadTimeout < 0:
		return nil, cairn.Invalid("ReadTimeout", "is negative")
	case o.RunsPerUser < 0:
		return nil, cairn.Invalid("RunsPerUser", "is negative")
	}
	if o.SignIn != nil {
		var err error
		if o.SignIn, err = o.SignIn.complete(eng.Records()); err != nil {
			return nil, err
		}
	}
	if o.Advance != nil {
		var err error
		if o.Advance, err = o.Advance.complete(); err != nil {
			return nil, err
		}
	}
	if o.Policy == nil {
		o.Policy = OwnSessions
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.MaxBody == 0 {
		o.MaxBody = maxBody
	}
	if o.MaxChatBody == 0 {
		o.MaxChatBody = maxChatBody
	}
	if o.MaxValues == 0 {
		o.MaxValues = maxValues
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = readTimeout
	}
	if o.StreamsPerUser == 0 {
		o.StreamsPerUser = streamsPerUser
	}
	if o.RequestsPerMinute == 0 {
		o.RequestsPerMinute = requestsPerMinute
	}
	for _, origin := range o.Origins {
		if err := h.protect.AddTrustedOrigin(origin); err != nil {
			return nil, cairn.Invalid("Origins", "%v", err)
		}
		h.origins[origin] = true
	}
	if u, _ := url.Parse(o.URL); o.URL != "" {
		if err := h.protect.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, cairn.Invalid("URL", "%v", err)
		}
	}
	h.users, h.failures = newUsers(o.StreamsPerUser, o.RequestsPerMinute), newUsers(-1, failuresPerMinute)
	h.ctx, h.stop = context.WithCancel(context.Background())
	list := routes()
	h.openAPI = sync.OnceValues(func() (json.RawMessage, error) { return openAPI(list, o.Authenticate != nil, false) })
	methods := map[string]bool{}
	for _, r := range list {
		methods[r.Method] = true
		h.mux.Handle(r.Method+" "+r.Path, h.serve(r))
	}
	h.methods = strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
	return h, nil
}

// isAddress reports whether a text is empty or the address of a server.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}

// ConnContext is the ConnContext of an [http.Server] that clients or proxies reach over HTTP/1.0, as nginx does by
// default. A response without a length ends with its connection there, so a proxy would take the end of a killed
// process for the end of the stream. With this function the connection of an unfinished stream is reset instead, which
// proxies pass on as a broken response. It has no effect on HTTP/1.1, HTTP/2 and connections other than TCP.
func ConnContext(ctx context.Context, c net.Conn) context.Context { return sse.WithConn(ctx, c) }

// LameDuck makes /readyz fail, so that proxies send requests elsewhere, and has clients close their connections after
// the response. Everything is served as before. Call it as long before Drain as proxies take to notice.
func (h *Handler) LameDuck() { h.leaving.Store(true) }

// Drain ends every stream so that its client reconnects, to another process or to this one after its restart. New
// streams are refused with 503. Call Drain before http.Server.Shutdown, which waits for requests to end.
func (h *Handler) Drain() {
	h.LameDuck()
	if h.ctx.Err() == nil {
		h.opts.Observer.Drained()
	}
	h.stop()
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(requestIDHeader)
	if !validID(id) {
		id = rand.Text()
	}
	w.Header().Set(requestIDHeader, id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if h.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	_, pattern := h.mux.Handler(r)
	w, done := observe(h.opts.Observer, w, pattern)
	defer done()
	h.boundRead(w, r)
	if h.cors(w, r) {
		return
	}
	if err := h.protect.Check(r); err != nil {
		h.fail(w, r, &httpError{http.StatusForbidden, "cross_origin", "cross-origin request denied"}, &request{})
		return
	}
	if unclean(r.URL.EscapedPath()) { // the mux would redirect to the path of something else
		h.fail(w, r, cairn.Invalid("path", "must not have an empty, . or .. segment"), &request{})
		return
	}
	if pattern == "" {
		h.unrouted(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// unclean reports whether a path has segments that are left out when it is cleaned.
func unclean(path string) bool {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	return path != "" && slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." || s == ".." })
}

// unrouted answers a request that matches no route.
func (h *Handler) unrouted(w http.ResponseWriter, r *http.Request) {
	rec := &discard{header: http.Header{}}
	h.mux.ServeHTTP(rec, r) // the mux knows the methods of the path
	if rec.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", rec.header.Get("Allow"))
		h.fail(w, r, &httpError{rec.status, "method_not_allowed", "method not allowed: " + r.Method}, &request{})
		return
	}
	h.fail(w, r, &httpError{http.StatusNotFound, string(cairn.ErrNotFound), "path not found"}, &request{})
}

// discard keeps the status and header of a response and drops its body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func (d *discard) WriteHeader(status int) { d.status = status }

// cors lets pages of the permitted origins read responses. It reports whether the request was only a preflight, and
// is done.
func (h *Handler) cors(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	w.Header().Add("Vary", "Origin")
	if !h.origins[origin] {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Allow-Credentials", "true")
	w.Header().Set("Access-Control-Expose-Headers", requestIDHeader+", "+replayedHeader+", Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", h.methods)
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, Idempotency-Key, "+tenantHeader+", "+requestIDHeader)
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
