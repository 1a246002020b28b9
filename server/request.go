package server

import (
	"context"
	"encoding/json"
	"net/http"
)

// request is one request of a known principal.
type request struct {
	h         *Handler
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context
	principal *Principal
	granted   string // the session whose file a signed address is of
	once      *once  // nil for a request without an Idempotency-Key
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
	if _, err := c.bounded().Write(append(body, '\n')); err != nil {
		c.h.opts.Logger.Debug("answer not written", "path", c.r.URL.Path, "error", err)
	}
	return nil
}

// validID reports whether an id that a client made can be kept, and go into logs and headers, as it is.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}
