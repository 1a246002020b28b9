package server

import (
	"context"
	"encoding/json"
	"net/http"
)

// request is one HTTP request and its principal.
type request struct {
	h         *Handler
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context
	principal *Principal
	granted   string // session whose file the signed address is for; empty without one
	once      *once  // nil for a request without an Idempotency-Key
	lastOf    string // see [route]
	seen      string // id of the last turn among the items of that list
	large     bool   // it holds one of the places for large bodies
}

// wholeErrors reports whether the principal sees errors in full. Others see what is meant for the users of a
// conversation; so do administrators, through whose programs users may read.
func (c *request) wholeErrors() bool { return c.principal != nil && c.principal.Is(RoleOperator) }

// none is the response of a route that has no body to return.
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

// validID reports whether an id made by a client can be stored, and written to logs and headers, unchanged.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}
