package server

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

// route is one route of the server. Its types describe what it reads and returns.
type route struct {
	Method, Path string
	Summary      string
	// In is the type that a request is decoded into, Out that of the response; Out is nil for a stream and for a
	// file.
	In, Out reflect.Type
	Frames  reflect.Type // type of the events of a stream
	Status  int          // status of a success
	serve   func(*request) error
	// anonymous routes need no principal.
	anonymous bool
	// signsIn routes need other credentials than the cookie of a sign-in.
	signsIn bool
	// signed routes accept the signature of an address as credentials.
	signed bool
	// lastOf names a list in the body of which only the last item counts. The others are not kept, whatever they are.
	lastOf string
	// Bytes reports whether the response is a file, unencoded.
	Bytes bool
}

// answer returns a route that responds with JSON.
func answer[In, Out any](method, path, summary string, status int, do func(*request, *In) (Out, error)) route {
	return route{Method: method, Path: path, Summary: summary, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](), Status: status,
		serve: func(c *request) error {
			in, err := bind[In](c)
			if err != nil {
				return err
			}
			out, err := do(c, in)
			if err != nil {
				return err
			}
			return c.json(status, out)
		}}
}

// stream returns a route that responds with a stream of events. A user who may not open another one is refused
// before do is called.
func stream[Frame, In any](method, path, summary string, do func(*request, *In) error) route {
	return route{Method: method, Path: path, Summary: summary, In: reflect.TypeFor[In](), Frames: reflect.TypeFor[Frame](), Status: http.StatusOK,
		serve: func(c *request) error {
			in, err := bind[In](c)
			if err != nil {
				return err
			}
			leave, err := c.h.users.stream(c.principal.limitKey())
			if err != nil {
				return err
			}
			defer leave()
			if c.h.ctx.Err() != nil {
				return &cairn.Error{Code: cairn.ErrClosed, Message: "server is shutting down"}
			}
			return do(c, in)
		}}
}

// signedFile is [file], also at an address that the server has signed.
func signedFile[In any](path, summary string, do func(*request, *In) error) route {
	r := file(path, summary, do)
	r.signed = true
	return r
}

// file returns a route that responds with a file.
func file[In any](path, summary string, do func(*request, *In) error) route {
	return route{Method: http.MethodGet, Path: path, Summary: summary, In: reflect.TypeFor[In](), Bytes: true, Status: http.StatusOK,
		serve: func(c *request) error {
			in, err := bind[In](c)
			if err != nil {
				return err
			}
			return do(c, in)
		}}
}

// serve returns the handler of a route.
func (h *Handler) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &request{h: h, w: w, r: r, ctx: r.Context(), lastOf: rt.lastOf}
		defer c.leavePlace()
		err := func() (err error) {
			if rt.anonymous {
				return rt.serve(c)
			}
			if rt.signed && r.URL.Query().Has("signature") {
				if err := c.grant(); err != nil {
					return err
				}
				return rt.serve(c)
			}
			if err = c.authenticate(rt.signsIn); err != nil {
				return err
			}
			if err := h.users.request(c.principal.limitKey()); err != nil {
				return err
			}
			if rt.signsIn { // a response that is replayed has no cookie
				return rt.serve(c)
			}
			return c.serveOnce(rt.serve)
		}()
		switch {
		case errors.Is(err, sse.ErrCut):
			h.opts.Logger.Debug("stream interrupted", "path", r.URL.Path, "error", err)
			sse.Cut(w, r)
		case err != nil:
			h.fail(w, r, err, c)
		}
	})
}
