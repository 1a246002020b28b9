package engine

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// qualify returns the id of a name in the tenant of a session. The name may have that tenant already. The error is
// ErrInvalid, and names the field, for one of another tenant.
func qualify(field, session, name string) (string, error) {
	id, problem := ids.Qualify(session, name)
	if problem != "" {
		return "", cairn.Invalid(field, "%q %s", name, problem)
	}
	return id, nil
}

// qualify takes the user and the thread of the options for those of a session's tenant.
func (o *runOptions) qualify(session string) (err error) {
	c := &o.create
	c.ID = session
	if c.UserID, err = qualify("user_id", session, c.UserID); err == nil {
		c.ThreadID, err = qualify("thread", session, c.ThreadID)
	}
	return err
}
