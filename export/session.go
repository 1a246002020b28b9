package export

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// session is the head of an exported session.
type session struct {
	ID       string              `json:"id"`
	Agent    string              `json:"agent"`
	Status   cairn.SessionStatus `json:"status"`
	Kind     cairn.ChildKind     `json:"kind,omitempty"`
	Name     string              `json:"name,omitempty"`
	UserID   string              `json:"user_id,omitempty"`
	ThreadID string              `json:"thread_id,omitempty"`
	ParentID string              `json:"parent_id,omitempty"`
	Title    string              `json:"title,omitempty"`
	Tags     []string            `json:"tags,omitempty"`
	Metadata json.RawMessage     `json:"metadata,omitempty"`

	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	ArchivedAt time.Time `json:"archived_at,omitzero"`
	// Usage is the session's own, without the sessions below it.
	Usage cairn.Usage `json:"usage"`
	// Cost is the cost in US dollars, as far as it is known; absent if none is.
	Cost *float64 `json:"cost,omitempty"`
	// Tools are the tools of the latest reply, in the shape of chat completions.
	Tools []tool `json:"tools,omitempty"`
}

type tool struct {
	Type     string   `json:"type"` // "function"
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// head returns the head of a session, and its instructions.
func (x *exporter) head(row *cairn.Session) (s session, instructions string, err error) {
	p, err := x.prompt(row)
	if err != nil {
		return s, "", err
	}
	r := x.redacting()
	s = session{ID: r.named(row.ID), Agent: row.Agent, Status: row.Status, Kind: row.Kind, Name: r.text(row.Name), UserID: r.named(row.UserID), ThreadID: r.named(row.ThreadID),
		ParentID: r.named(row.ParentID), Title: r.text(row.Title), Tags: r.texts(row.Tags), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, ArchivedAt: row.ArchivedAt, Usage: row.Usage}
	if row.Usage.PricedCalls > 0 {
		s.Cost = new(float64(row.Usage.CostNanos) / 1e9)
	}
	if len(row.Metadata) > 0 {
		raw, err := json.Marshal(row.Metadata)
		if err != nil {
			return s, "", cairn.Errorf(cairn.ErrCorrupt, "the metadata of session %q: %w", row.ID, err)
		}
		s.Metadata = r.json(raw)
	}
	for _, t := range p.tools {
		s.Tools = append(s.Tools, tool{"function", function{t.Name, r.text(t.Description), r.json(t.Schema)}})
	}
	return s, r.text(p.instructions), r.err
}

// run is an exported run.
type run struct {
	ID        string          `json:"id"`
	Turn      int             `json:"turn"`
	Kind      cairn.RunKind   `json:"kind"`
	Status    cairn.RunStatus `json:"status"`
	Reason    cairn.Reason    `json:"reason,omitempty"`
	Error     *runError       `json:"error,omitempty"`
	Steps     int             `json:"steps"`
	Usage     cairn.Usage     `json:"usage"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
}

type runError struct {
	Code    cairn.Code `json:"code"`
	Message string     `json:"message,omitempty"`
}

// runs calls do with each run of a session, by turn.
func (x *exporter) runs(row *cairn.Session, do func(run) error) error {
	for q := (store.PageQuery{Limit: pageSize}); ; {
		page, err := x.eng.Runs(x.ctx, row.ID, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			in := &page.Items[i]
			if x.opts.Public {
				own := in.Public()
				in = &own
			}
			r := x.redacting()
			out := run{ID: in.ID, Turn: in.Turn, Kind: in.Kind, Status: in.Status, Reason: in.Reason, Steps: in.Steps, Usage: in.Usage, StartedAt: in.StartedAt, EndedAt: in.EndedAt}
			if in.Error != nil {
				out.Error = &runError{in.Error.Code, r.named(in.Error.Message)}
			}
			if r.err != nil {
				return r.err
			}
			if err := do(out); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// score is an exported score.
type score struct {
	Name      string    `json:"name"`
	Value     float64   `json:"value"`
	Comment   string    `json:"comment,omitempty"`
	By        string    `json:"by,omitempty"`
	RunID     string    `json:"run_id,omitempty"`
	MessageID string    `json:"message_id,omitempty"`
	At        time.Time `json:"at,omitzero"`
}

func (x *exporter) scores(row *cairn.Session) ([]score, error) {
	list, err := x.eng.Scores(x.ctx, row.ID)
	if err != nil {
		return nil, err
	}
	r := x.redacting()
	var out []score
	for _, s := range list {
		out = append(out, score{r.text(s.Name), s.Value, r.text(s.Comment), r.named(s.By), s.RunID, s.MessageID, s.At})
	}
	return out, r.err
}
