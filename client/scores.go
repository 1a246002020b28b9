package client

import (
	"context"
	"net/url"

	"github.com/cairn-agents/cairn"
)

// Score keeps a score of a session, or of its run or message that s names, and returns it. s.By is for servers without
// authentication: elsewhere the client's user judges.
func (c *Client) Score(ctx context.Context, s cairn.Score) (*cairn.Score, error) {
	in := struct {
		MessageID string  `json:"message_id,omitempty"`
		RunID     string  `json:"run_id,omitempty"`
		Name      string  `json:"name,omitempty"`
		Value     float64 `json:"value"`
		Comment   string  `json:"comment,omitempty"`
		Reviewer  string  `json:"reviewer,omitempty"`
	}{s.MessageID, s.RunID, s.Name, s.Value, s.Comment, s.By}
	return out[cairn.Score](c, ctx, "POST", "/sessions/"+url.PathEscape(s.SessionID)+"/scores", nil, in)
}

// Scores returns the scores of a session, oldest first.
func (c *Client) Scores(ctx context.Context, session string) ([]cairn.Score, error) {
	list, err := out[struct {
		Items []cairn.Score `json:"items"`
	}](c, ctx, "GET", "/sessions/"+url.PathEscape(session)+"/scores", nil, nil)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
