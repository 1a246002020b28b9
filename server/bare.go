package server

import (
	"reflect"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/ids"
)

// named are the fields of a type in which clients find names of sessions, threads and people.
type named struct {
	ids   []string // a text or a list of texts each
	texts []string // texts for people in which ids may occur
}

var namedIn = map[reflect.Type]named{
	reflect.TypeFor[cairn.Session]():      {ids: []string{"ID", "UserID", "ThreadID", "ParentID", "RootID"}},
	reflect.TypeFor[cairn.BranchOrigin](): {ids: []string{"From"}},
	reflect.TypeFor[cairn.PendingCall]():  {ids: []string{"UserID", "ClaimedBy"}},
	reflect.TypeFor[cairn.CallRef]():      {ids: []string{"RootID", "SessionID", "Reviewers"}},
	reflect.TypeFor[cairn.CallAnswer]():   {ids: []string{"Reviewer"}},
	reflect.TypeFor[cairn.Decision]():     {ids: []string{"Reviewer"}},
	reflect.TypeFor[cairn.Run]():          {ids: []string{"SessionID", "StoppedBy"}},
	reflect.TypeFor[cairn.Stop]():         {ids: []string{"By"}},
	reflect.TypeFor[cairn.ChildRef]():     {ids: []string{"SessionID"}},
	reflect.TypeFor[cairn.ChildEnd]():     {ids: []string{"SessionID"}},
	reflect.TypeFor[cairn.Checkpoint]():   {ids: []string{"SessionID"}},
	reflect.TypeFor[cairn.Message]():      {ids: []string{"ChildID"}},
	reflect.TypeFor[cairn.Summary]():      {ids: []string{"Background"}},
	reflect.TypeFor[cairn.ToolResult]():   {ids: []string{"Background"}},
	reflect.TypeFor[cairn.Event]():        {ids: []string{"SessionID", "ChildID"}},
	reflect.TypeFor[cairn.Error]():        {texts: []string{"Message", "Details"}},
	reflect.TypeFor[cairn.MemorySource](): {ids: []string{"Session"}},
	reflect.TypeFor[client.Started]():     {ids: []string{"SessionID"}},
	reflect.TypeFor[client.Identity]():    {ids: []string{"User"}},
	reflect.TypeFor[client.ChatBranch]():  {ids: []string{"ID"}},
	reflect.TypeFor[client.UsageGroup]():  {ids: []string{"UserID"}},
	reflect.TypeFor[cairn.BudgetReport](): {ids: []string{"SessionID", "Of"}},
	reflect.TypeFor[cairn.Score]():        {ids: []string{"SessionID", "By"}},
	reflect.TypeFor[cairn.Situation]():    {ids: []string{"SessionID", "StoppedBy"}},
	reflect.TypeFor[cairn.HeldLease]():    {ids: []string{"SessionID", "RootID"}},
	reflect.TypeFor[cairn.DueSession]():   {ids: []string{"SessionID"}},
	reflect.TypeFor[cairn.CallBrief]():    {ids: []string{"RootID", "SessionID", "UserID", "Reviewers", "Voted", "ClaimedBy"}},
	reflect.TypeFor[cairn.BudgetReport](): {ids: []string{"SessionID", "Of"}},
}

// namesOf returns the fields of a type that have names: those of namedIn, or those with a tag "names" of this package's
// types, whose value is id or text.
func namesOf(t reflect.Type) (own named) {
	if own, known := namedIn[t]; known {
		return own
	}
	for i := range t.NumField() {
		switch f := t.Field(i); f.Tag.Get("names") {
		case "id":
			own.ids = append(own.ids, f.Name)
		case "text":
			own.texts = append(own.texts, f.Name)
		}
	}
	return own
}

// bareID returns the name of an id in a tenant.
func bareID(tenant, id string) string {
	if tenant == "" {
		return id
	}
	return strings.TrimPrefix(id, tenant+ids.Separator)
}

// bareText returns a text with names instead of ids of a tenant.
func bareText(tenant, text string) string { return strings.ReplaceAll(text, tenant+ids.Separator, "") }

// bare returns a value with names instead of ids of a tenant. It changes copies only: stores may share what they return.
// Without a tenant it returns the value.
func bare[T any](tenant string, v T) T {
	if tenant == "" {
		return v
	}
	at := reflect.ValueOf(&v).Elem()
	if at.Kind() == reflect.Interface {
		at = at.Elem()
	}
	if !at.IsValid() || !hasNames(at.Type()) {
		return v
	}
	return bared(tenant, at).Interface().(T)
}

// bared returns a copy of a value of a type that has names.
func bared(tenant string, v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(bared(tenant, v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(bared(tenant, v.Index(i)))
		}
	case reflect.Struct:
		own := namesOf(v.Type())
		for _, name := range own.ids {
			replace(out.FieldByName(name), func(id string) string { return bareID(tenant, id) })
		}
		for _, name := range own.texts {
			replace(out.FieldByName(name), func(text string) string { return bareText(tenant, text) })
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && hasNames(f.Type) {
				out.Field(i).Set(bared(tenant, v.Field(i)))
			}
		}
	}
	return out
}

// replace replaces a text, or each one of a copy of a list.
func replace(at reflect.Value, by func(string) string) {
	if at.Kind() == reflect.String {
		at.SetString(by(at.String()))
		return
	}
	list := reflect.MakeSlice(at.Type(), at.Len(), at.Len())
	for i := range at.Len() {
		list.Index(i).SetString(by(at.Index(i).String()))
	}
	if !at.IsNil() {
		at.Set(list)
	}
}

// hasNamesIn caches hasNames.
var hasNamesIn sync.Map

// hasNames reports whether values of a type have names, themselves or in their fields and items.
func hasNames(t reflect.Type) bool {
	if has, known := hasNamesIn.Load(t); known {
		return has.(bool)
	}
	has := findNames(t, map[reflect.Type]bool{})
	hasNamesIn.Store(t, has)
	return has
}

func findNames(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return findNames(t.Elem(), seen)
	case reflect.Struct:
		if own := namesOf(t); len(own.ids)+len(own.texts) > 0 {
			return true
		}
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && findNames(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// bareEvent replaces the ids of an event's tenant by names.
func bareEvent(ev *cairn.Event) {
	tenant, _ := ids.Split(ev.SessionID)
	if tenant == "" {
		return
	}
	ev.SessionID, ev.ChildID = bareID(tenant, ev.SessionID), bareID(tenant, ev.ChildID)
	if ev.Type == cairn.EventBranched || ev.Type == cairn.EventRunEnd {
		ev.Name = bareID(tenant, ev.Name)
	}
	ev.Error = bare(tenant, ev.Error)
}
