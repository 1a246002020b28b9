package server

import (
	"github.com/cairn-agents/cairn"
)

type scoreIn struct {
	ID string `path:"id" json:"-"`
	// MessageID and RunID name the message or the run that is judged; without them the score is of the whole session.
	MessageID string `json:"message_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	// Name is what is judged, such as helpful; score without one.
	Name string `json:"name,omitempty"`
	// Value is the judgement; its scale is up to the program.
	Value float64 `json:"value"`
	// Comment explains the value, in at most 8 KiB.
	Comment string `json:"comment,omitempty"`
	// Reviewer is who judges, on a server without authentication.
	Reviewer string `json:"reviewer,omitempty"`
}

// score keeps a score by the principal.
func score(c *request, in *scoreIn) (*cairn.Score, error) {
	if err := c.reviewAs(&in.Reviewer); err != nil {
		return nil, err
	}
	if _, err := c.open(in.ID, ActionChange); err != nil {
		return nil, err
	}
	return c.h.eng.Score(c.ctx, cairn.Score{SessionID: in.ID, MessageID: in.MessageID, RunID: in.RunID, Name: in.Name, Value: in.Value,
		Comment: in.Comment, By: in.Reviewer})
}

// scoresBody lists the scores of a session.
type scoresBody struct {
	// Items are the scores, oldest first.
	Items []cairn.Score `json:"items"`
}

func listScores(c *request, in *idIn) (*scoresBody, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	list, err := c.h.eng.Scores(c.ctx, in.ID)
	return &scoresBody{orEmpty(list)}, err
}
