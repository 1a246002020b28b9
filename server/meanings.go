package server

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
)

// meaningsFile holds the comments of the types and fields that the OpenAPI document shows, by "package.Type" and
// "package.Type.Field". A test generates it from the source.
//
//go:embed meanings.json
var meaningsFile []byte

var meanings = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	if err := json.Unmarshal(meaningsFile, &all); err != nil {
		panic("server: meanings.json: " + err.Error())
	}
	return all
})

// meaning returns the description of a type or field; empty if it has no comment and is not a common request field.
func meaning(t reflect.Type, field string) string {
	text := cmp.Or(meanings()[meaningKey(t, field)], usual(t, field))
	if t.Kind() == reflect.Struct && field != "" {
		if f, ok := t.FieldByName(field); ok && f.Type == reflect.TypeFor[cairn.Duration]() {
			text += " In seconds."
		}
	}
	return text
}

// usual returns the description of a field that means the same in every request.
func usual(t reflect.Type, field string) string {
	if name := t.Name(); t.PkgPath() != reflect.TypeFor[route]().PkgPath() || !strings.HasSuffix(name, "In") {
		return ""
	}
	return inRequests[field]
}

// inRequests describes the fields that mean the same in every request, unless a comment says more.
var inRequests = map[string]string{
	"Agent":         "The name of the agent.",
	"Call":          "The id of the call.",
	"CheckpointID":  "The id of the checkpoint.",
	"CreatedAfter":  "Only sessions created after this time.",
	"CreatedBefore": "Only sessions created before this time.",
	"Cursor":        "The next cursor of the previous page; empty for the first page.",
	"ExpiresAt":     "When the session expires.",
	"ID":            "The id of the session.",
	"Kind":          "Only calls of this kind.",
	"Limit":         "The maximum number of items on a page.",
	"Newest":        "Newest items first.",
	"Offset":        "The number of items to skip.",
	"Reason":        "The reason, which is stored with the run.",
	"Reviewer":      "The reviewer's name, on a server without authentication.",
	"Root":          "The id of the root of the call's tree.",
	"RootID":        "The id of a tree's root: only calls of this tree.",
	"Run":           "The id of the run.",
	"RunID":         "The id of the run.",
	"Search":        "Only sessions with this text in their title or first message.",
	"SessionID":     "The id of the session.",
	"Status":        "Only sessions with this status, or with one of several.",
	"Tags":          "Only sessions with this tag, or with each of several.",
	"Tool":          "Only calls of this tool.",
	"UserID":        "The user who owns them. Only administrators may name another user.",
}

func meaningKey(t reflect.Type, field string) string {
	name, _, _ := strings.Cut(t.Name(), "[") // of a generic type
	key := path.Base(t.PkgPath()) + "." + name
	if field != "" {
		key += "." + field
	}
	return key
}
