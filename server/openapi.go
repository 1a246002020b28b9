package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/schema"
	"github.com/cairn-agents/cairn/internal/wire"
)

// enums are the values of types that get no further ones, so that clients may rely on them.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[cairn.Role]():           values(cairn.RoleUser, cairn.RoleAssistant, cairn.RoleTool),
	reflect.TypeFor[cairn.CallStatus]():     values(cairn.CallOpen, cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped, cairn.CallSent),
	reflect.TypeFor[cairn.Quorum]():         values(cairn.AnyReviewer, cairn.AllReviewers, cairn.MostReviewers),
	reflect.TypeFor[cairn.SubmissionType](): values(cairn.SubmitResult, cairn.SubmitApproval, cairn.SubmitAnswer),
	reflect.TypeFor[cairn.Outcome](): values(cairn.OutcomeAccepted, cairn.OutcomeAlreadyCompleted, cairn.OutcomeLate,
		cairn.OutcomeUnknownCall, cairn.OutcomeInvalid),
	reflect.TypeFor[cairn.SessionStatus](): values(cairn.SessionIdle, cairn.SessionActive, cairn.SessionPaused, cairn.SessionCompleted,
		cairn.SessionFailed, cairn.SessionInterrupted),
	reflect.TypeFor[cairn.ChildKind](): values(cairn.ChildSubAgent, cairn.ChildCompanion, cairn.ChildReplaced, cairn.ChildBranch),
	reflect.TypeFor[cairn.RunStatus](): values(cairn.RunRunning, cairn.RunCompleted, cairn.RunFailed, cairn.RunInterrupted,
		cairn.RunSuspended,
		wire.RunStatus(cairn.RunSuspended, cairn.ReasonCalls), wire.RunStatus(cairn.RunSuspended, cairn.ReasonChildren),
		wire.RunStatus(cairn.RunSuspended, cairn.ReasonStepPartial)),
	reflect.TypeFor[cairn.WorkspaceFileType](): values(cairn.WorkspaceRegular, cairn.WorkspaceDirectory, cairn.WorkspaceLink),
	reflect.TypeFor[cairn.RunKind]():           values(cairn.RunExecute, cairn.RunResume, cairn.RunRetry),
	reflect.TypeFor[engine.AdvanceState]():     values(engine.AdvanceMore, engine.AdvanceWaiting, engine.AdvanceEnded, engine.AdvanceTakenOver),
}

// own are the schemas of types that do not encode as their Go type does.
var own = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[cairn.Duration](): {Type: "number", Description: "Seconds."},
	reflect.TypeFor[cairn.Cursor]():   {Type: "string"},
}

func values[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// chatChunk is the data of each event of a chat's stream: a chunk of the AI SDK's UI message stream.
type chatChunk struct {
	// Type is the kind of chunk, such as "text-delta".
	Type string `json:"type"`
}

func getOpenAPI(c *request, _ *struct{}) (json.RawMessage, error) { return c.h.openAPI() }

// object is a part of the document.
type object = map[string]any

// document is an OpenAPI 3.1 document of what the routes read and return, under construction.
type document struct {
	defs schema.Definitions
	// closed names the definitions that requests consist of. They permit no additional properties.
	closed map[string]bool
}

// openAPI returns the document of the routes. Objects in responses permit additional properties, unless strict is
// set.
func openAPI(list []route, secured, strict bool) ([]byte, error) {
	d := &document{closed: map[string]bool{}, defs: schema.Definitions{Prefix: "#/components/schemas/", Name: typeName, Enums: enums, Own: own, Doc: meaning}}
	if _, err := d.defs.Add(reflect.TypeFor[problemBody]()); err != nil {
		return nil, err
	}
	paths := map[string]object{}
	for _, rt := range list {
		op, err := d.operation(rt)
		if err != nil {
			return nil, err
		}
		if secured && !rt.anonymous {
			op["security"] = []object{{"token": []string{}}}
		}
		if paths[rt.Path] == nil {
			paths[rt.Path] = object{}
		}
		paths[rt.Path][strings.ToLower(rt.Method)] = op
	}
	for name, s := range d.defs.Schemas {
		if strict && !lenientChat(name) || d.closed[name] {
			s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		}
	}
	components := object{"schemas": d.defs.Schemas}
	if secured {
		components["securitySchemes"] = object{"token": object{"type": "http", "scheme": "bearer"}}
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": "Cairn", "version": "1",
			"description": "Durable agent sessions: turns, streams of their events, approvals, and the sessions themselves."},
		"servers":    []object{{"url": "."}},
		"paths":      paths,
		"components": components,
	})
}

// lenientChat reports whether a definition is one that chat clients add fields of their own to.
func lenientChat(name string) bool { return strings.HasPrefix(name, "Chat") }

func (d *document) operation(rt route) (object, error) {
	op := object{"operationId": operationID(rt), "summary": rt.Summary}
	params, err := d.parameters(rt)
	if err != nil {
		return nil, err
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if rt.Method != http.MethodGet && rt.Method != http.MethodDelete {
		body, err := d.body(rt)
		if err != nil {
			return nil, err
		}
		if body != nil {
			op["requestBody"] = body
		}
	}
	problem := object{"description": "The error", "content": object{"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}}}}
	success := object{"description": rt.Summary}
	responses := object{strconv.Itoa(rt.Status): success, "4XX": problem, "5XX": problem}
	switch {
	case rt.Frames != nil:
		s, err := d.defs.Add(rt.Frames)
		if err != nil {
			return nil, err
		}
		success["description"] = rt.Summary + ". The schema describes the data of each server-sent event."
		success["content"] = object{"text/event-stream": object{"schema": s}}
		if rt.Method == http.MethodGet {
			responses["204"] = object{"description": "No turn is under way"}
		}
	case rt.Bytes:
		bytes := object{"*/*": object{"schema": object{"type": "string", "format": "binary"}}}
		success["content"] = bytes
		responses["206"] = object{"description": "The requested range of the file", "content": bytes}
		responses["304"] = object{"description": "The client has the file"}
	case rt.Status != http.StatusNoContent:
		s, err := d.defs.Add(rt.Out)
		if err != nil {
			return nil, err
		}
		success["content"] = object{"application/json": object{"schema": s}}
	}
	op["responses"] = responses
	return op, nil
}

// parameters returns the path and query parameters and the headers that a route reads.
func (d *document) parameters(rt route) ([]object, error) {
	var list []object
	for _, f := range reflect.VisibleFields(rt.In) {
		for _, in := range []string{"path", "query"} {
			name := f.Tag.Get(in)
			if name == "" {
				continue
			}
			s, err := d.defs.Add(f.Type)
			if err != nil {
				return nil, err
			}
			if f.Type == reflect.TypeFor[cairn.Metadata]() { // as JSON in a text
				s = &jsonschema.Schema{Type: "string", ContentMediaType: "application/json"}
			}
			p := object{"name": name, "in": in, "schema": s}
			if text := d.defs.Field(rt.In, f); text != "" {
				p["description"] = text
			}
			if in == "path" {
				p["required"] = true
			}
			list = append(list, p)
		}
	}
	if rt.Method == http.MethodPost {
		list = append(list, header(keyHeader, "A key chosen by the client. Requests with the same key within a day have an effect once."))
	}
	if !rt.anonymous {
		list = append(list, header(tenantHeader, "The tenant as which an operator of the platform makes the request. Others may only name their own."))
	}
	if rt.Path == "/sse" {
		list = append(list, header("Last-Event-ID", "The id of the last event that the client received; the stream continues after it."))
	}
	return list, nil
}

func header(name, description string) object {
	return object{"name": name, "in": "header", "description": description, "schema": object{"type": "string"}}
}

// body returns the request body of a route; nil if it reads none.
func (d *document) body(rt route) (object, error) {
	before := len(d.defs.Schemas)
	s, err := d.defs.Object(rt.In, func(f reflect.StructField) bool { return f.Tag.Get("path") != "" })
	if err != nil || len(s.Properties) == 0 && before == len(d.defs.Schemas) {
		return nil, err
	}
	if _, ok := reflect.New(rt.In).Interface().(lenient); !ok {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		d.close(s)
	}
	return object{"required": len(s.Required) > 0, "content": object{"application/json": object{"schema": s}}}, nil
}

// close marks the definitions that a schema refers to as closed.
func (d *document) close(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, d.defs.Prefix); ok && !d.closed[name] {
		d.closed[name] = true
		d.close(d.defs.Schemas[name])
	}
	for _, p := range s.Properties {
		d.close(p)
	}
	d.close(s.Items)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		d.close(s.AdditionalProperties)
	}
}

// operationID names an operation by its method and path: "getSessionsByIdRuns".
func operationID(rt route) string {
	id := strings.ToLower(rt.Method)
	for word := range strings.FieldsFuncSeq(strings.ReplaceAll(rt.Path, "{", "by-"), func(r rune) bool { return !unicode.IsLetter(r) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// typeArgument finds the type argument in the name of a generic type.
var typeArgument = regexp.MustCompile(`^(\w+)\[.*?(\w+)\]$`)

// typeName names a struct in the document: a page of runs is a RunPage, and the types of chat clients begin with
// Chat.
func typeName(t reflect.Type) string {
	name := t.Name()
	if m := typeArgument.FindStringSubmatch(name); m != nil {
		name = m[2] + m[1]
	}
	if strings.HasSuffix(t.PkgPath(), "/aisdk") {
		name = "Chat" + name
	}
	name = strings.TrimSuffix(name, "Body")
	return strings.ToUpper(name[:1]) + name[1:]
}
