package cairn

import (
	"cmp"
	"time"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Score is a judgement of a session, of one of its runs or of one of its messages: feedback of a user, or the result of
// an evaluation.
type Score struct {
	// SessionID is the session. RunID and MessageID name the judged part; both are empty for the whole session. The
	// run of a message is filled in.
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	// Name is the judged quality, such as "helpful" or "accuracy"; empty means [DefaultScore].
	Name string `json:"name"`
	// Value is the judgement; its scale is up to the program.
	Value float64 `json:"value"`
	// Comment explains the value, in at most 8 KiB.
	Comment string `json:"comment,omitempty"`
	// By is who judges: a person or an evaluator. A later score by the same judge, of the same thing and name, replaces the
	// earlier one.
	By string `json:"by,omitempty"`
	// At is the time of the score, by the store's clock.
	At time.Time `json:"at,omitzero"`
}

// DefaultScore is the name of a score without one.
const DefaultScore = "score"

// maxComment is the maximum size of a score's comment in bytes.
const maxComment = 8 << 10

// Validate reports the first mistake.
func (s *Score) Validate() error {
	if problem := limits.Number(s.Value); problem != "" {
		return Invalid("value", "%s", problem)
	}
	for field, text := range map[string]string{"name": s.Name, "by": s.By, "run_id": s.RunID, "message_id": s.MessageID} {
		if len(text) > 200 {
			return Invalid(field, "has %d bytes (max 200)", len(text))
		}
	}
	if len(s.Comment) > maxComment {
		return Invalid("comment", "has %d bytes (max %d)", len(s.Comment), maxComment)
	}
	return cmp.Or(CheckSessionID(s.SessionID), CheckText("name", s.Name), CheckText("by", s.By), CheckText("comment", s.Comment),
		CheckText("run_id", s.RunID), CheckText("message_id", s.MessageID))
}
