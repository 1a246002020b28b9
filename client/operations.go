package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/cairn-agents/cairn"
)

// Operations returns the workers, the leases and the sessions that need a worker, for operators and administrators. limit
// is the maximum length of each list, at most 100; 0 means 100.
func (c *Client) Operations(ctx context.Context, limit int) (*cairn.Operations, error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return out[cairn.Operations](c, ctx, "GET", "/operations", query, nil)
}
