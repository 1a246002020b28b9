package server

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

type operationsIn struct {
	// Limit is the maximum length of each list; 0 means 100.
	Limit int `query:"limit"`
}

// operations is for operators and administrators. Those of a tenant see its sessions, not the processes that serve it.
func operations(c *request, in *operationsIn) (*cairn.Operations, error) {
	if !c.principal.seesAll() {
		return nil, noPath()
	}
	if in.Limit < 0 || in.Limit > maxPage {
		return nil, cairn.Invalid("limit", "must be 1 to %d", maxPage)
	}
	out, err := c.h.eng.Operations(c.ctx, engine.OperationsQuery{Tenant: c.selected(), Limit: in.Limit})
	if err == nil && c.tenant() != "" {
		out.Workers = []cairn.WorkerLoad{}
		for i := range out.Leases {
			out.Leases[i].Owner = ""
		}
	}
	return out, err
}
