package server

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// mayRun returns an error if the principal's sessions, other than the given one, have as many turns under way as one
// user may have. They are counted in the store, so the limit holds for all processes together. It is not exact: requests
// that begin turns concurrently do not count each other. Requests without a user are not limited.
func (c *request) mayRun(session string) error {
	most, user := c.h.opts.RunsPerUser, c.principal.User
	if most <= 0 || user == "" {
		return nil
	}
	page, err := c.h.eng.Sessions(c.ctx, store.SessionQuery{UserID: user, Statuses: []cairn.SessionStatus{cairn.SessionActive}, RootsOnly: true, Limit: most + 1})
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(page.Items, func(s cairn.Session) bool { return s.ID == session || s.ThreadID == session })
	if len(others) >= most {
		return &httpError{http.StatusTooManyRequests, "too_many_runs", fmt.Sprintf("the user has reached the limit of %d turns under way", most)}
	}
	return nil
}
