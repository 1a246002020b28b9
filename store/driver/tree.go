package driver

import (
	"context"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Tree returns the rows of a session tree: the root first, parents before their children, and siblings by creation and
// id. The error is ErrInvalid for a session that is not a root, and ErrCorrupt if a session's parent is missing.
func Tree(ctx context.Context, st Store, root string) ([]cairn.Session, error) {
	row, err := Load(ctx, st, root)
	if err != nil {
		return nil, err
	}
	if row.RootID != root {
		return nil, NotRoot(row)
	}
	children := map[string][]cairn.Session{} // by parent, newest first
	total := 1
	for s, err := range All(func(cursor string) (Page[cairn.Session], error) {
		return st.List(ctx, SessionQuery{RootID: root, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			return nil, err
		}
		if s.ID != root {
			children[s.ParentID] = append(children[s.ParentID], *s)
			total++
		}
	}
	rows := []cairn.Session{*row}
	for i := 0; i < len(rows); i++ {
		for _, child := range slices.Backward(children[rows[i].ID]) {
			rows = append(rows, child)
		}
	}
	if len(rows) != total {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: %d sessions of its tree have no parent in it", root, total-len(rows))
	}
	return rows, nil
}
