package pgstore

import (
	"encoding/json"

	"github.com/cairn-agents/cairn/store"
)

// contextChange is a change of a session's user context in its stored form; null fields are left.
type contextChange struct {
	change  store.ContextChange
	set     map[string]string
	dropped []string
}

func (x *contextChange) fill(c *store.ContextChange) error {
	if c == nil {
		return nil
	}
	x.change = *c
	x.set, x.dropped = map[string]string{}, []string{}
	for k, v := range c.Metadata {
		if v == "" {
			x.dropped = append(x.dropped, k)
		} else {
			x.set[k] = v
		}
	}
	return nil
}

func (x *contextChange) argument(name string) any {
	switch name {
	case "user_id":
		return x.change.UserID
	case "tags":
		if x.change.Tags == nil {
			return nil
		}
		return append([]string{}, *x.change.Tags...)
	case "metadata":
		return mapText(x.set)
	case "metadata_drop":
		return x.dropped
	case "expires":
		return x.change.ExpiresAt != nil
	case "expires_at":
		if x.change.ExpiresAt == nil {
			return nil
		}
		return timestamp(*x.change.ExpiresAt)
	}
	panic("pgstore: no argument " + name) // a statement names what is not there
}

// mapText is the JSON of a map of texts, which always encodes.
func mapText(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	raw, _ := json.Marshal(m)
	return string(raw)
}
