package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/skill"
)

// AgentTool is an agent that MCP clients can call as a tool.
type AgentTool struct {
	// Agent is the agent's name in the engine.
	Agent string
	// Name is the tool's name. Default: the agent's name.
	Name string
	// Description states the agent's purpose. Required, since a client's model gets no other information about the agent.
	Description string
	// Message is the message of calls that give none, for an agent that needs none. Default: each call must give one.
	Message string
	// Skills publishes the skills of the agent's skill sets to clients, by the extension io.modelcontextprotocol/skills.
	// Every client that may call tools may read all of their files.
	Skills bool
}

// AgentOptions say how agents are served.
type AgentOptions struct {
	// Name is the name of the MCP server. Default: "cairn".
	Name string
	// Logger gets failures. Default: nothing is logged.
	Logger *slog.Logger
}

// Agents serves agents of an engine as MCP tools. Each call of a tool is a turn: of a new session, or of the session
// that the call names, which must be the caller's. Its result is the turn's output or the text of the last reply, with
// the reply's files, up to 8 MiB. A call reports the steps and calls of its turn to a client that gives a progress
// token.
//
// Cancelling a call interrupts its run: by notifications/cancelled over standard input and output and, over HTTP from
// revision 2026-07-28 on, by closing the response. In earlier revisions over HTTP a lost connection does
// not cancel a call, and a notification does not identify the client, so the turn continues.
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
	skills := skillsOfTools(eng, tools)
	caps := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	if len(skills) > 0 {
		caps.Resources, caps.Extensions = &sdk.ResourceCapabilities{}, map[string]any{skillsExtension: map[string]any{}}
	}
	a.server = sdk.NewServer(&sdk.Implementation{Name: cmp.Or(o.Name, "cairn"), Version: "1"}, &sdk.ServerOptions{
		Capabilities: caps,
		// Answers are for the authenticated user.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	a.server.AddReceivingMiddleware(declared(len(skills) > 0), a.described)
	if len(skills) > 0 {
		if err := (&publisher{skill.Join(skills...), o.Logger}).publish(a.server); err != nil {
			return nil, err
		}
	}
	if len(tools) == 0 {
		return nil, cairn.Invalid("tools", "is empty")
	}
	a.agents = map[string]string{}
	for i, t := range tools {
		field, name := fmt.Sprintf("tools[%d]", i), cmp.Or(t.Name, t.Agent)
		switch {
		case !slices.Contains(eng.Agents(), t.Agent):
			return nil, cairn.Invalid(field, "agent %q is not registered", t.Agent)
		case !ids.Tool(name):
			return nil, cairn.Invalid(field, "%q is not a valid tool name", name)
		case t.Description == "":
			return nil, cairn.Invalid(field, "description is empty")
		case a.agents[name] != "":
			return nil, cairn.Invalid(field, "duplicate name %q", name)
		case t.Skills && len(skillsOf(eng.Agent(t.Agent))) == 0:
			return nil, cairn.Invalid(field, "agent %q has no skills", t.Agent)
		}
		if _, err := turnSchema(eng.Agent(t.Agent).Output); err != nil {
			return nil, cairn.Invalid(field, "agent %q: %v", t.Agent, err)
		}
		a.agents[name] = t.Agent
		sdk.AddTool(a.server, &sdk.Tool{Name: name, Description: t.Description, InputSchema: inputSchema(t.Message == "")}, func(ctx context.Context, req *sdk.CallToolRequest, in turnIn) (*sdk.CallToolResult, any, error) {
			in.Message = cmp.Or(in.Message, t.Message)
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
func declared(resources bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			kind, _, _ := strings.Cut(method, "/")
			if kind == "prompts" || kind == "completion" || kind == "logging" || kind == "resources" && !resources {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + clean(method, 256)}
			}
			return next(ctx, method, req)
		}
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
	Message string `json:"message"`
	Session string `json:"session,omitempty"`
}

// inputSchema returns the schema of turnIn.
func inputSchema(needsMessage bool) json.RawMessage {
	required := ""
	if needsMessage {
		required = `"required":["message"],`
	}
	return json.RawMessage(`{"type":"object","properties":{` +
		`"message":{"type":"string","description":"The message to the agent, with everything it needs to know."},` +
		`"session":{"type":"string","description":"The session of an earlier call, to continue its conversation. Default: a new session."}},` +
		required + `"additionalProperties":false}`)
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

// Handler serves clients over streamable HTTP. It authenticates each request: authenticate returns the user's id, with
// the tenant if there is one (see [cairn.InTenant]), or "" for credentials that are missing or wrong, which is answered
// with 401. An error is answered with 503. A session belongs to the user who began it, and to the user's tenant, and
// appears not to exist to other callers. Clients name sessions without the tenant. Any process with the same store may
// serve any request.
func (a *Agents) Handler(authenticate func(*http.Request) (user string, err error)) (http.Handler, error) {
	if authenticate == nil {
		return nil, cairn.Invalid("authenticate", "is required")
	}
	web := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return a.server }, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := authenticate(r)
		if problem := ids.CheckTenancy(user); err == nil && problem != "" {
			err = fmt.Errorf("user %q %s", user, problem)
		}
		switch {
		case err != nil:
			a.logger.Error("cannot authenticate an MCP request", "error", err)
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
	user, name := caller(req), in.Session
	state := req.Params.RequestState
	if state != "" {
		_, name, _ = strings.Cut(state, "/")
	}
	if name == "" {
		name = ids.New("mcp")
	}
	session := ids.InTenantOf(user, name) // clients know no tenant
	var run *engine.Run
	var err error
	if state != "" {
		if err = a.own(ctx, session, agent, user); err != nil {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: " + err.Error()}
		}
		run, err = a.answered(ctx, req, session)
	} else {
		if in.Session != "" {
			if err = a.own(ctx, session, agent, user); err != nil {
				return nil, nil, err
			}
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
	progress := progressOf(req)
	for {
		progress.follow(ctx, run)
		res, err := run.Wait(ctx)
		if ctx.Err() != nil {
			a.interrupt(ctx, run)
			return nil, nil, context.Cause(ctx)
		}
		if err != nil && res == nil {
			return nil, nil, a.shown(err)
		}
		if res.Suspended == nil {
			out, err := finished(name, res)
			if err != nil {
				return nil, nil, err
			}
			shown, err := withFiles(out, a.files(ctx, session, res))
			return shown, out, err
		}
		requests, waits := a.requests(ctx, res.Suspended)
		elicits := req.ClientCapabilities() != nil && req.ClientCapabilities().Elicitation != nil
		switch {
		case len(requests) == 0 || !elicits:
			return nil, nil, inInbox(name, waits)
		case req.ProtocolVersion() >= durable:
			return &sdk.CallToolResult{InputRequests: requests, RequestState: stateOf(name, requests)}, nil, nil
		}
		if run, err = a.elicit(ctx, req, session, requests); err != nil {
			return nil, nil, errors.Join(err, inInbox(name, waits))
		}
	}
}

// stateOf returns the state with which a client continues the turn of a session. It differs from one set of questions
// to the next. It needs no seal: only the owner of the session may continue the turn.
func stateOf(session string, requests sdk.InputRequestMap) string {
	return ids.Derive("asked", slices.Sorted(maps.Keys(requests))...) + "/" + session
}

// durable is the first revision in which a client repeats a request with its answers.
const durable = "2026-07-28"

// own returns an error unless a session is the caller's and the agent's. Any other session is reported as missing.
func (a *Agents) own(ctx context.Context, session, agent, user string) error {
	of, name := ids.Split(session)
	if tenant, _ := ids.Split(user); of != tenant { // the client has named one
		return fmt.Errorf("session %q not found", clean(name, 256))
	}
	row, err := a.eng.Session(ctx, session)
	if errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrInvalid) || err == nil && (row.UserID != user || row.Agent != agent || row.ParentID != "") {
		return fmt.Errorf("session %q not found", clean(name, 256))
	}
	return a.shown(err)
}

// shown returns what a client may read of an error.
func (a *Agents) shown(err error) error {
	if err == nil {
		return nil
	}
	a.logger.Warn("agent call failed", "error", err)
	var e *cairn.Error
	if errors.As(err, &e) {
		return e.Public()
	}
	return errors.New("call failed")
}

func (a *Agents) interrupt(ctx context.Context, run *engine.Run) {
	if err := run.Interrupt(context.WithoutCancel(ctx), "the client cancelled the call"); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
		a.logger.Warn("cannot interrupt a run", "session", run.SessionID(), "error", err)
	}
}

// finished returns the result of a turn that has ended.
func finished(session string, res *cairn.Result) (*turnOut, error) {
	res = new(res.Public())
	out := &turnOut{Session: session, Text: res.Text, Output: res.Output}
	switch {
	case res.Error != nil:
		return nil, res.Error
	case res.Status != cairn.RunCompleted:
		return nil, fmt.Errorf("the turn of session %q was stopped: %s", session, cmp.Or(res.StopReason, string(res.Status)))
	}
	return out, nil
}

// inInbox returns the error for a turn that is suspended on calls that the client cannot answer.
func inInbox(session string, waits []string) error {
	return fmt.Errorf("the turn of session %q is waiting for people to decide in the inbox: %s. Its outcome will be in the session", session, strings.Join(waits, "; "))
}
