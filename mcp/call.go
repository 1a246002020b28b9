package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
)

// MetaIdempotencyKey is the member of a request's _meta that holds the call's idempotency key. A server that sees a
// key again is receiving a repeated request: this client does not know whether the earlier response was kept.
const MetaIdempotencyKey = "io.github.cairn-agents/idempotencyKey"

// maxRounds bounds how often a server may ask for something in one call, maxBusy how often it may ask to be called
// later, maxConnects how often the user is asked to connect an account: once for it, and once for further scopes.
const (
	maxRounds   = 32
	maxBusy     = 3
	maxConnects = 2
)

// call calls a server's tool. What the server wants to know from the user suspends the call. Each request is made
// once, the server's response is kept with the question, and the next request carries the answers and the server's
// state.
func (s *Server) call(ctx context.Context, call *cairn.Call, remote string, arguments json.RawMessage) (json.RawMessage, error) {
	params := &sdk.CallToolParams{Name: remote, Arguments: arguments}
	connects := 0
	for round := range maxRounds {
		r, err := cairn.Once(ctx, call, func(ctx context.Context) (*result, error) {
			params.Meta = sdk.Meta{MetaIdempotencyKey: fmt.Sprintf("%s/%d", call.IdempotencyKey(), round)}
			return s.patient(ctx, call, params)
		})
		switch {
		case err != nil:
			return nil, err
		case r.Type == mustConnect && connects == maxConnects:
			return nil, s.notPermitted()
		case r.Type == mustConnect:
			connects++
			if err := s.opts.Auth.connect(ctx, call); err != nil {
				return nil, err
			}
			continue
		case r.Type == complete:
			return s.finish(call, r)
		}
		params.RequestState, params.InputResponses = r.State, sdk.InputResponseMap{}
		for _, id := range slices.Sorted(maps.Keys(r.Requests)) {
			answer, err := s.ask(call, r.Requests[id].Method, r.Requests[id].Params)
			if err != nil {
				return nil, err
			}
			params.InputResponses[id] = answer
		}
	}
	return nil, fmt.Errorf("MCP server %q asks too many times in one call", s.name)
}

// finish returns the output of a call, or the error of the server's tool, and attaches the files of the result.
func (s *Server) finish(call *cairn.Call, r *result) (json.RawMessage, error) {
	out, files, err := r.output(s.opts.MaxResult)
	if err != nil && !r.IsError {
		err = hasRun{err}
	}
	if len(files) > 0 {
		if bad := call.Attach(files...); err == nil {
			err = bad
		}
	}
	return out, err
}

// hasRun is an error about the result of a tool that the server has run.
type hasRun struct{ error }

func (hasRun) Is(target error) bool { return target == define.ErrRan }

func (e hasRun) Unwrap() error { return e.error }

// patient makes a request, and repeats it with a backoff while the server reports only that it is busy.
func (s *Server) patient(ctx context.Context, call *cairn.Call, params *sdk.CallToolParams) (*result, error) {
	for busy := 0; ; busy++ {
		r, err := s.send(ctx, call, params)
		if err != nil || r.Type != inputRequired || len(r.Requests) > 0 {
			return r, err
		}
		if busy == maxBusy {
			return nil, fmt.Errorf("MCP server %q is busy", s.name)
		}
		params.RequestState = r.State
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second << busy):
		}
	}
}

// send makes one request.
func (s *Server) send(ctx context.Context, call *cairn.Call, params *sdk.CallToolParams) (*result, error) {
	l, err := s.link(call.UserID)
	if err != nil {
		return nil, err
	}
	token := ids.New("progress")
	params.SetProgressToken(token)
	defer l.follow(`"`+token+`"`, &progress{server: s.name, call: call})()
	res, err := l.callTool(ctx, params)
	var refused *jsonrpc.Error
	var lacks refusal
	switch {
	case needsConnect(err):
		return &result{Type: mustConnect}, nil
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errForbidden):
		return nil, s.notPermitted()
	case errors.As(err, &lacks): // the SDK reports a request that was not sent as a refusal of the server as well
		return nil, fmt.Errorf("MCP server %q: %w", s.name, lacks)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("MCP server %q refuses the call: %s (%d)", s.name, clean(refused.Message, maxDescription), refused.Code)
	case err != nil && matches(s.opts.Effectful, params.Name):
		return nil, cairn.Errorf(cairn.ErrEffectUnknown, "MCP server %q: %w", s.name, err)
	case err != nil:
		return nil, fmt.Errorf("MCP server %q: %w", s.name, err)
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	return decodeResult(raw)
}

// notPermitted returns the error of a call that the server forbids.
func (s *Server) notPermitted() error {
	return fmt.Errorf("MCP server %q does not permit the call to this user", s.name)
}

// elicitation is what a server asks the user.
type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`
}

// asked is the payload of the question that an elicitation becomes.
type asked struct {
	Server string `json:"server"`
	// URL is where the user does what the server asks for; the answer says only that it is done.
	URL string `json:"url,omitempty"`
}

const methodElicit = "elicitation/create"

// ask puts a server's question to the user.
func (s *Server) ask(call *cairn.Call, method string, raw json.RawMessage) (*sdk.ElicitResult, error) {
	if method != methodElicit {
		return nil, fmt.Errorf("MCP server %q sent an unsupported request %q", s.name, clean(method, 64))
	}
	q, err := s.question(raw)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q sent an unsupported elicitation: %w", s.name, err)
	}
	value, err := define.Ask(call, *q)
	var e *cairn.Error
	switch {
	case errors.Is(err, cairn.ErrDenied):
		return &sdk.ElicitResult{Action: "decline"}, nil
	case errors.As(err, &e) && e.Code == cairn.ErrTimeout:
		return &sdk.ElicitResult{Action: "cancel"}, nil
	case err != nil:
		return nil, err
	}
	answer := &sdk.ElicitResult{Action: "accept"}
	if q.Schema != nil {
		if err := json.Unmarshal(value, &answer.Content); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// question converts an elicitation into a question.
func (s *Server) question(raw json.RawMessage) (*define.Question, error) {
	var e elicitation
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	q := &define.Question{Prompt: clean(e.Message, maxDescription)}
	payload := asked{Server: s.name}
	if q.Prompt == "" {
		q.Prompt = s.name + " asks."
	}
	switch {
	case e.Mode == "url" || e.Mode == "" && e.URL != "":
		u, err := url.Parse(e.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(e.URL) > 8<<10 {
			return nil, errors.New("address must be an absolute http or https URL")
		}
		payload.URL = u.String()
	case (e.Mode == "form" || e.Mode == "") && (len(e.Schema) == 0 || string(e.Schema) == "null"): // yes or no
	case e.Mode == "form" || e.Mode == "":
		if err := checkSchema(e.Schema); err != nil {
			return nil, err
		}
		q.Schema = e.Schema
	default:
		return nil, fmt.Errorf("mode %q", clean(e.Mode, 64))
	}
	var err error
	q.Payload, err = json.Marshal(payload)
	return q, err
}

// connecting returns the tool that stands in for a server whose tools are unknown until the user has connected an
// account.
func (s *Server) connecting() cairn.Tool {
	return cairn.RawFunc(s.opts.Prefix+connectTool, "Asks the user to connect an account with "+s.name+", so that its tools can be used.",
		json.RawMessage(`{"type":"object","additionalProperties":false}`),
		func(ctx context.Context, call *cairn.Call, _ json.RawMessage) (json.RawMessage, error) {
			if s.opts.Auth == nil {
				return nil, fmt.Errorf("MCP server %q has no account to connect", s.name)
			}
			if err := s.opts.Auth.connect(ctx, call); err != nil {
				return nil, err
			}
			return json.RawMessage(`"Connected. The tools are available from the user's next message on."`), nil
		})
}
