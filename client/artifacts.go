package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/cairn-agents/cairn"
)

// SessionArtifact is a file that a session made for its user.
type SessionArtifact struct {
	cairn.PublishedArtifact
	// URL is the address of the content. It needs no other credentials until the end of the next day.
	URL string `json:"url"`
}

// Artifacts lists the artifacts of a session, oldest first. The last one of a name is current.
// [Client.File] reads them, by Message and File.
func (c *Client) Artifacts(ctx context.Context, id string, limit int, cursor string) (*cairn.Page[SessionArtifact], error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return out[cairn.Page[SessionArtifact]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/artifacts", query, nil)
}
