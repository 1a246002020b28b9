package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/cairn-agents/cairn/internal/ids"
)

// request is one HTTP request and its principal.
type request struct {
	h         *Handler
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context
	principal *Principal
	caller    *Principal // as the credentials name it, not as it acts in the request
	granted   string     // session whose file the signed address is for; empty without one
	once      *once      // nil for a request without an Idempotency-Key
	lastOf    string     // see [route]
	seen      string     // id of the last turn among the items of that list
	large     bool       // it holds one of the places for large bodies
}

// wholeErrors reports whether the principal sees errors in full. Others see what is meant for the users of a
// conversation; so do administrators, through whose programs users may read.
func (c *request) wholeErrors() bool { return c.principal != nil && c.principal.Is(RoleOperator) }

// confined reports whether the request is confined to the sessions of one tenant, or to those of none.
func (c *request) confined() bool { return c.principal != nil && c.principal.Tenant != AllTenants }

// tenant returns the tenant whose names the client knows; empty if it knows ids.
func (c *request) tenant() string {
	if !c.confined() {
		return ""
	}
	return c.principal.Tenant
}

// full returns the id of a session that the client, or what is encoded for it, knows by name. It is idempotent.
func (c *request) full(name string) string {
	if strings.Contains(name, ids.Separator) {
		return name
	}
	return ids.In(c.tenant(), name)
}

// bareID returns the name by which the client knows an id.
func (c *request) bareID(id string) string { return bareID(c.tenant(), id) }

// none is the response of a route that has no body to return.
type none struct{}

func (c *request) json(status int, out any) error {
	c.w.Header().Set("Cache-Control", "no-store")
	if _, empty := out.(none); empty {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	body, err := json.Marshal(bare(c.tenant(), out))
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
