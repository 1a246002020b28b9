package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// requests returns elicitations for the pending calls of a run, by the ids of the calls, and a description of each
// call. It returns no elicitations if a client's user cannot decide all of the calls.
func (a *Agents) requests(ctx context.Context, s *cairn.Suspension) (requests sdk.InputRequestMap, waits []string) {
	requests = sdk.InputRequestMap{}
	all := true
	for i := range s.Calls {
		ref := &s.Calls[i]
		waits = append(waits, fmt.Sprintf("call %s of %s (%s)", ref.ID, ref.Tool, ref.Kind))
		call, err := a.eng.Call(ctx, ref.RootID, ref.ID)
		if err != nil || len(ref.Reviewers) > 0 { // the named reviewers are not the client's user
			all = false
			continue
		}
		if p := elicitationOf(call); p != nil {
			requests[ref.ID] = p
		} else {
			all = false
		}
	}
	if !all {
		return nil, waits
	}
	return requests, waits
}

// elicitationOf returns the elicitation of a pending call; nil for one that is not for people.
func elicitationOf(c *cairn.PendingCall) *sdk.ElicitParams {
	switch c.Kind {
	case cairn.CallApproval:
		text := cmp.Or(c.Prompt, fmt.Sprintf("May %s be called?", c.Tool))
		return &sdk.ElicitParams{Mode: "form", Message: fmt.Sprintf("%s\n%s with %s", text, c.Tool, clean(string(c.Input), 4<<10)), RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"approve":{"type":"boolean","title":"Approve"},"reason":{"type":"string","title":"Reason"}},"required":["approve"]}`)}
	case cairn.CallConnect:
		var p struct{ URL string }
		if json.Unmarshal(c.Payload, &p) == nil && p.URL != "" {
			return &sdk.ElicitParams{Mode: "url", Message: c.Prompt, URL: p.URL, ElicitationID: c.ID}
		}
	case cairn.CallEffect:
		return &sdk.ElicitParams{Mode: "form", Message: c.Prompt, RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"outcome":{"type":"string","title":"Outcome","enum":["happened","did_not_happen","try_again"]}},"required":["outcome"]}`)}
	case cairn.CallQuestion:
		form := c.Schema
		if !isObject(form) {
			form, _ = json.Marshal(map[string]any{"type": "object", "required": []string{"answer"}, // of a stored schema
				"properties": map[string]any{"answer": orString(form)}})
		}
		return &sdk.ElicitParams{Mode: "form", Message: c.Prompt, RequestedSchema: form}
	}
	return nil
}

func isObject(schema json.RawMessage) bool {
	var s struct{ Type any }
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

func orString(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 || string(schema) == "true" || string(schema) == "{}" {
		return json.RawMessage(`{"type":"string"}`)
	}
	return schema
}

// answered submits the answers of a request and resumes the run.
func (a *Agents) answered(ctx context.Context, req *sdk.CallToolRequest, session string) (*engine.Run, error) {
	for id, response := range req.Params.InputResponses {
		answer, ok := response.(*sdk.ElicitResult)
		if !ok {
			return nil, cairn.Invalid("inputResponses", "%q must be the answer to an elicitation", clean(id, 64))
		}
		if err := a.submit(ctx, session, id, answer); err != nil {
			return nil, err
		}
	}
	return a.resume(ctx, session)
}

// resume resumes a turn, unless a worker or an earlier attempt of the request has done so.
func (a *Agents) resume(ctx context.Context, session string) (*engine.Run, error) {
	run, err := a.eng.Resume(ctx, session)
	if errors.Is(err, cairn.ErrNotResumable) || errors.Is(err, cairn.ErrAlreadyRunning) {
		return a.eng.Attach(ctx, session)
	}
	return run, err
}

// elicit asks a client of an older revision during the call.
func (a *Agents) elicit(ctx context.Context, req *sdk.CallToolRequest, session string, requests sdk.InputRequestMap) (*engine.Run, error) {
	for id, r := range requests {
		p := r.(*sdk.ElicitParams) // made by Agents.requests
		answer, err := req.Session.Elicit(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("elicitation failed: %w", err)
		}
		if err := a.submit(ctx, session, id, answer); err != nil {
			return nil, err
		}
	}
	return a.resume(ctx, session)
}

// submit answers a pending call for the client's user. A call that has an answer already is not an error.
func (a *Agents) submit(ctx context.Context, session, id string, answer *sdk.ElicitResult) error {
	call, err := a.eng.Call(ctx, session, id)
	if err != nil {
		return err
	}
	if call.Status != cairn.CallOpen {
		return nil
	}
	var s cairn.Submission
	switch {
	case len(call.Reviewers) > 0:
		return cairn.Invalid("inputResponses", "call %q can only be answered by its reviewers", id)
	case answer.Action == "cancel":
		return fmt.Errorf("call %q was cancelled by the client", id)
	case call.Kind == cairn.CallApproval:
		reason, _ := answer.Content["reason"].(string)
		if yes, _ := answer.Content["approve"].(bool); yes && answer.Action == "accept" {
			s = cairn.Approve(call.CallRef)
		} else {
			s = cairn.Deny(call.CallRef, reason)
		}
	case !call.Kind.Asked() || call.Kind == cairn.CallBudget:
		return cairn.Invalid("inputResponses", "call %q cannot be answered by a person", id)
	case answer.Action != "accept":
		s = cairn.AnswerError(call.CallRef, "declined")
	case call.Kind == cairn.CallConnect:
		s = cairn.Answer(call.CallRef, true)
	case isObject(call.Schema):
		s = cairn.Answer(call.CallRef, answer.Content)
	default:
		s = cairn.Answer(call.CallRef, answer.Content["answer"])
	}
	_, err = a.eng.Submit(ctx, session, s)
	return err
}
