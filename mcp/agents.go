package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
)

// AgentTool is an agent that MCP clients can call as a tool.
type AgentTool struct {
	// Agent is the agent's name in the engine.
	Agent string
	// Name is the tool's name. Default: the agent's name.
	Name string
	// Description says what the agent is for. Required, since it is all that a client's model knows about the
	// agent.
	Description string
}

// AgentOptions say how agents are served.
type AgentOptions struct {
	// Name is the name of the MCP server. Default: "cairn".
	Name string
	// Logger gets failures. Default: nothing is logged.
	Logger *slog.Logger
}

// Agents serves agents of an engine as MCP tools. Each call of a tool is a turn: of a new session, or of the
// session that the call names, which must be the caller's. Cancelling a call interrupts its run.
//
// If the run is suspended, the pending calls are put to the client's user by elicitation, if the client supports
// it. If it does not, or if the user does not decide, the call's result is an error that names the session and the
// pending calls in the inbox. The turn continues once these are answered, and its outcome is in the session.
type Agents struct {
	eng    *engine.Engine
	agents map[string]string // by the tools' names
	server *sdk.Server
	logger *slog.Logger
}

// NewAgents returns a server of agents of an engine. The error is ErrInvalid and names the field.
func NewAgents(eng *engine.Engine, tools []AgentTool, opts *AgentOptions) (*Agents, error) {
	var o AgentOptions
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agents{eng: eng, logger: o.Logger}
	a.server = sdk.NewServer(&sdk.Implementation{Name: cmp.Or(o.Name, "cairn"), Version: "1"}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		// Answers are for the authenticated user.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	a.server.AddReceivingMiddleware(declared, a.described)
	if len(tools) == 0 {
		return nil, cairn.Invalid("tools", "no agents")
	}
	a.agents = map[string]string{}
	for i, t := range tools {
		field, name := fmt.Sprintf("tools[%d]", i), cmp.Or(t.Name, t.Agent)
		switch {
		case !slices.Contains(eng.Agents(), t.Agent):
			return nil, cairn.Invalid(field, "agent %q is not registered", t.Agent)
		case !ids.Tool(name):
			return nil, cairn.Invalid(field, "%q cannot be the name of a tool", name)
		case t.Description == "":
			return nil, cairn.Invalid(field, "the description is empty")
		case a.agents[name] != "":
			return nil, cairn.Invalid(field, "the name %q is taken", name)
		}
		if _, err := turnSchema(eng.Agent(t.Agent).Output); err != nil {
			return nil, cairn.Invalid(field, "agent %q: %v", t.Agent, err)
		}
		a.agents[name] = t.Agent
		sdk.AddTool(a.server, &sdk.Tool{Name: name, Description: t.Description}, func(ctx context.Context, req *sdk.CallToolRequest, in turnIn) (*sdk.CallToolResult, any, error) {
			res, out, err := a.call(ctx, req, t.Agent, in)
			if err != nil || out == nil {
				return res, nil, err
			}
			return res, out, nil
		})
	}
	return a, nil
}

// declared refuses methods of capabilities that are not declared, which the SDK answers with empty lists.
func declared(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch kind, _, _ := strings.Cut(method, "/"); kind {
		case "prompts", "resources", "completion", "logging":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + clean(method, 256)}
		}
		return next(ctx, method, req)
	}
}

// described adds the schemas of results to a list of tools: those of the agents that are registered at the time.
func (a *Agents) described(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		list, ok := res.(*sdk.ListToolsResult)
		if err != nil || !ok {
			return res, err
		}
		for i, t := range list.Tools {
			agent := a.eng.Agent(a.agents[t.Name])
			if agent == nil {
				continue
			}
			schema, err := turnSchema(agent.Output)
			if err != nil {
				return nil, err
			}
			described := *t
			described.OutputSchema = schema
			list.Tools[i] = &described
		}
		return list, nil
	}
}

// turnIn is the input of an agent's tool.
type turnIn struct {
	Message string `json:"message" jsonschema:"What to say to the agent, with everything it needs to know."`
	Session string `json:"session,omitempty" jsonschema:"The session of an earlier call, to continue the conversation. A new one by default."`
}

// turnOut is the result of a call, see turnSchema.
type turnOut struct {
	Session string          `json:"session"`
	Text    string          `json:"text,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

// Stdio serves one client over this process's standard input and output, until ctx ends or the client disconnects.
// Nothing else may write to standard output. The client's user is the one who runs the process; sessions belong to
// no user.
func (a *Agents) Stdio(ctx context.Context) error { return a.server.Run(ctx, &sdk.StdioTransport{}) }

// Handler serves clients over streamable HTTP. It authenticates each request: authenticate returns the user, or ""
// for credentials that are missing or wrong, which is answered with 401. An error is answered with 503. A session
// belongs to the user who began it, and appears not to exist to other callers. Any process with the same store may
// serve any request.
func (a *Agents) Handler(authenticate func(*http.Request) (user string, err error)) (http.Handler, error) {
	if authenticate == nil {
		return nil, cairn.Invalid("authenticate", "is nil: requests would be served to anyone")
	}
	web := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return a.server }, &sdk.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := authenticate(r)
		switch {
		case err != nil:
			a.logger.Error("an MCP request cannot be authenticated", "error", err)
			http.Error(w, "authentication is not available", http.StatusServiceUnavailable)
		case user == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "not authenticated", http.StatusUnauthorized)
		default:
			r = r.Clone(r.Context())
			r.Header.Set(userHeader, user) // replaces a header that the client may have sent
			web.ServeHTTP(w, r)
		}
	}), nil
}

// userHeader carries the authenticated user through the SDK to the tool.
const userHeader = "X-Cairn-Authenticated-User"

// caller returns the user who makes a request; "" over standard input.
func caller(req *sdk.CallToolRequest) string {
	if req.Extra == nil {
		return ""
	}
	return req.Extra.Header.Get(userHeader)
}

// call runs a turn. A request with answers continues the turn of the session in its state. The state needs no seal:
// the session is checked against the caller as in any other request.
func (a *Agents) call(ctx context.Context, req *sdk.CallToolRequest, agent string, in turnIn) (*sdk.CallToolResult, *turnOut, error) {
	user, session := caller(req), in.Session
	var run *engine.Run
	var err error
	if state := req.Params.RequestState; state != "" {
		session = state
		if err = a.own(ctx, session, agent, user); err != nil {
			return nil, nil, err
		}
		run, err = a.answered(ctx, req, session)
	} else {
		if session == "" {
			session = ids.New("mcp")
		} else if err = a.own(ctx, session, agent, user); err != nil {
			return nil, nil, err
		}
		opts := []engine.RunOption{}
		if user != "" {
			opts = append(opts, engine.WithUser(user))
		}
		run, err = a.eng.Execute(ctx, session, agent, cairn.Text(in.Message), opts...)
	}
	if err != nil {
		return nil, nil, a.shown(err)
	}
	for {
		res, err := run.Wait(ctx)
		if ctx.Err() != nil {
			a.interrupt(ctx, session)
			return nil, nil, context.Cause(ctx)
		}
		if err != nil && res == nil {
			return nil, nil, a.shown(err)
		}
		if res.Suspended == nil {
			return finished(session, res)
		}
		requests, waits := a.requests(ctx, res.Suspended)
		elicits := req.ClientCapabilities() != nil && req.ClientCapabilities().Elicitation != nil
		switch {
		case len(requests) == 0 || !elicits:
			return nil, nil, inInbox(session, waits)
		case req.ProtocolVersion() >= durable:
			return &sdk.CallToolResult{InputRequests: requests, RequestState: session}, nil, nil
		}
		if run, err = a.elicit(ctx, req, session, requests); err != nil {
			return nil, nil, errors.Join(err, inInbox(session, waits))
		}
	}
}

// durable is the first revision in which a client repeats a request with its answers.
const durable = "2026-07-28"

// own returns an error unless a session is the caller's and the agent's. Any other session is reported as missing.
func (a *Agents) own(ctx context.Context, session, agent, user string) error {
	row, err := a.eng.Session(ctx, session)
	if errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrInvalid) || err == nil && (row.UserID != user || row.Agent != agent || row.ParentID != "") {
		return fmt.Errorf("there is no session %q", clean(session, 256))
	}
	return a.shown(err)
}

// shown returns what a client may read of an error.
func (a *Agents) shown(err error) error {
	if err == nil {
		return nil
	}
	a.logger.Warn("a call of an agent failed", "error", err)
	var e *cairn.Error
	if errors.As(err, &e) {
		return e.Public()
	}
	return errors.New("the call failed")
}

func (a *Agents) interrupt(ctx context.Context, session string) {
	if err := a.eng.Interrupt(context.WithoutCancel(ctx), session, "the client cancelled the call"); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
		a.logger.Warn("not interrupted", "session", session, "error", err)
	}
}

// finished returns the result of a turn that has ended.
func finished(session string, res *cairn.Result) (*sdk.CallToolResult, *turnOut, error) {
	res = new(res.Public())
	out := &turnOut{Session: session, Text: res.Text, Output: res.Output}
	switch {
	case res.Error != nil:
		return nil, nil, res.Error
	case res.Status != cairn.RunCompleted:
		return nil, nil, fmt.Errorf("the turn of session %q was stopped: %s", session, cmp.Or(res.StopReason, string(res.Status)))
	}
	return nil, out, nil
}

// inInbox returns the error for a turn that is suspended on calls that the client cannot answer.
func inInbox(session string, waits []string) error {
	return fmt.Errorf("the turn of session %q waits for people, who find it in the inbox: %s. Its outcome will be in the session", session, strings.Join(waits, "; "))
}

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
			return nil, cairn.Invalid("inputResponses", "%q is not the answer to an elicitation", clean(id, 64))
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
			return nil, fmt.Errorf("the client could not ask: %w", err)
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
		return cairn.Invalid("inputResponses", "call %q is for reviewers", id)
	case answer.Action == "cancel":
		return fmt.Errorf("call %q was not decided", id)
	case call.Kind == cairn.CallApproval:
		reason, _ := answer.Content["reason"].(string)
		if yes, _ := answer.Content["approve"].(bool); yes && answer.Action == "accept" {
			s = cairn.Approve(call.CallRef)
		} else {
			s = cairn.Deny(call.CallRef, reason)
		}
	case !call.Kind.Asked():
		return cairn.Invalid("inputResponses", "call %q is not for people", id)
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
