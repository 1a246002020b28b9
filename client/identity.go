package client

import (
	"context"
	"time"
)

// Identity is the principal of a request.
type Identity struct {
	// User is the principal's name; empty for one without a name.
	User string `json:"user,omitempty"`
	// Name is how pages show the principal; empty means User.
	Name string `json:"name,omitempty"`
	// Roles are the principal's roles: user, reviewer, operator, admin.
	Roles []string `json:"roles"`
	// Tenant is the tenant that the principal is confined to; empty for none, and * for a principal of all tenants.
	Tenant string `json:"tenant,omitempty"`
	// Expires is when the sign-in or the credentials expire; zero if that is not known.
	Expires time.Time `json:"expires,omitzero"`
}

// Identity returns the principal that the server takes the client for.
func (c *Client) Identity(ctx context.Context) (*Identity, error) {
	return out[Identity](c, ctx, "GET", "/console/session", nil, nil)
}
