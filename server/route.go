package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

// request is one request of a known principal.
type request struct {
	h         *Handler
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context
	principal *Principal
	once      *once // nil for a request without an Idempotency-Key
}

// route is one route of the server. What it reads and answers is known from its types.
type route struct {
	Method, Path string
	Summary      string
	// In and Out are what the request is read into and what its answer is; Out is nil for a stream and for none.
	In, Out reflect.Type
	Frames  reflect.Type // what the events of a stream carry
	Status  int          // of a success
	serve   func(*request) error
	// anonymous routes need no principal.
	anonymous bool
}

// answer is a route that answers a request with JSON.
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

// stream is a route that answers with a stream of events. A user who may not have another one is refused before anything is
// done.
func stream[Frame, In any](method, path, summary string, do func(*request, *In) error) route {
	return route{Method: method, Path: path, Summary: summary, In: reflect.TypeFor[In](), Frames: reflect.TypeFor[Frame](), Status: http.StatusOK,
		serve: func(c *request) error {
			in, err := bind[In](c)
			if err != nil {
				return err
			}
			leave, err := c.h.users.stream(c.principal.User)
			if err != nil {
				return err
			}
			defer leave()
			if c.h.ctx.Err() != nil {
				return &cairn.Error{Code: cairn.CodeClosed, Message: "the server is being stopped"}
			}
			return do(c, in)
		}}
}

// none is the answer of a route that has nothing to say.
type none struct{}

func (c *request) json(status int, out any) error {
	c.w.Header().Set("Cache-Control", "no-store")
	if _, empty := out.(none); empty {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if c.once != nil && c.once.kept.Status == 0 {
		c.answered(status, body)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_, err = c.w.Write(append(body, '\n'))
	if err != nil {
		c.h.opts.Logger.Debug("answer not written", "path", c.r.URL.Path, "error", err)
	}
	return nil
}

// serve returns the handler of a route.
func (h *Handler) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &request{h: h, w: w, r: r, ctx: r.Context()}
		err := func() (err error) {
			if rt.anonymous {
				return rt.serve(c)
			}
			if c.principal, err = h.principal(r); err != nil {
				return err
			}
			if err := h.users.request(c.principal.User); err != nil {
				return err
			}
			return c.serveOnce(&rt)
		}()
		switch {
		case errors.Is(err, sse.ErrCut):
			h.opts.Logger.Debug("stream cut", "path", r.URL.Path, "error", err)
			sse.Cut()
		case err != nil:
			h.fail(w, r, err)
		}
	})
}
