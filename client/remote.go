package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// RemoteOptions describe an agent on another server.
type RemoteOptions struct {
	// Name is the agent's name here; it is required. Description is its purpose. A calling model reads both.
	Name        string
	Description string
	// Agent is the agent's name on the other server; empty means Name.
	Agent string
	// Patience is how long the other server may be unreachable during one call of it, despite repeated attempts,
	// before that call fails. The agent's Retry then determines whether the call is repeated. 0 means the client's
	// Options.Patience.
	Patience time.Duration
}

// RemoteAgent makes an agent that represents an agent of another server. It is used like any other: as a sub-agent,
// with [cairn.SubAgent], as a companion, or in sessions of its own. Each of its sessions here has a counterpart there,
// whose id is derived from the id here, so a call that is repeated, by any process, begins nothing twice. It works on
// every host.
//
//   - The text and the reasoning of the remote agent are streamed as its reply; the texts of its steps become
//     paragraphs. Its files become files of the reply, after the text. The actions of its tools and its own agents
//     are on the log, but in no message.
//   - Open calls of the remote agent are pending here: its approvals, client tools and questions are calls of the
//     session here, appear in the inbox of the tree's root, and are answered here with Submit. The answers are
//     forwarded when the run is resumed. A decision made on the other server instead counts there, and is noticed
//     here with the next answer.
//   - Its tokens are counted as usage of the run here.
//   - A stop here stops the run there, at least once: see [cairn.Stopper]. A lost connection stops nothing.
//   - If the session or the agent is gone on the other server, or the credentials are refused, the run here fails
//     with ErrLost and the cause, which the user may read. If the run there fails, the run here fails too.
//
// The agent may be given an Output, which the remote agent's output must then satisfy; without one, an output is
// returned as text. Its Retry, Guard, MaxSteps and TTL may be set as well. Its hooks and state are its own, and it
// has no tools. Its sessions can be neither rewound nor branched.
func RemoteAgent(c *Client, o RemoteOptions) *cairn.Agent {
	m := &remote{client: c, agent: o.Agent, patience: o.Patience}
	if m.agent == "" {
		m.agent = o.Name
	}
	if m.patience == 0 && c != nil {
		m.patience = c.opts.Patience
	}
	return &cairn.Agent{Name: o.Name, Description: o.Description, Model: m}
}

// remote is a model that stands for an agent on another server. It is stateless: what it must know of its last
// reply is returned to it with the transcript.
type remote struct {
	client   *Client
	agent    string
	patience time.Duration
}

// Info implements cairn.Model. It does not contain the address, because a server may move.
func (m *remote) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "cairn", Name: m.agent} }

// Validate implements cairn.Validator.
func (m *remote) Validate() error {
	switch {
	case m.client == nil:
		return errors.New("client is nil")
	case m.patience < 0:
		return errors.New("the option Patience must not be negative")
	}
	return nil
}

// place is the part of a reply that refers to the other server: the session there, the position in its log up to
// which the reply goes, and the last run whose end the reply includes.
type place struct {
	Session string       `json:"session"`
	After   cairn.Cursor `json:"after,omitzero"`
	Ended   string       `json:"ended,omitempty"`
}

// asked is the part of a call here that refers to the call on the other server.
type asked struct {
	Call       string         `json:"call"`
	Kind       cairn.CallKind `json:"kind"`
	ApprovalID string         `json:"approval_id,omitempty"`
}

// sessionID returns the session there that corresponds to a session here.
func sessionID(here string) string { return ids.Derive("remote", here) }

// turnOf returns the first run there of the turn that was begun by a run here.
func turnOf(here, runID string) string { return ids.Derive("run", sessionID(here), runID) }

// request is what a model call asks the remote agent for: to begin a turn with an input, to continue with answers,
// or just to continue.
type request struct {
	place
	first   bool         // no turn came before
	turn    string       // the run here that began the turn
	input   *UserMessage // of a turn to begin
	answers []cairn.Submission
	depth   int  // of the session here
	output  bool // the result of the agent is a typed output here
}

// read returns the request that a transcript asks for.
func (m *remote) read(req *cairn.Request) (*request, error) {
	r := &request{place: place{Session: sessionID(req.SessionID)}, depth: req.Depth}
	r.output = slices.ContainsFunc(req.Tools, func(t cairn.ToolSpec) bool { return t.Name == cairn.FinishTool })
	refs := map[string]asked{}
	model := m.Info().ID()
	said := -1 // the last message of the model
	for i := range req.Messages {
		msg := &req.Messages[i]
		if msg.Role == cairn.RoleUser && !msg.Hidden && msg.RunID != r.turn {
			r.first, r.turn = r.turn == "", msg.RunID
		}
		if msg.Role != cairn.RoleAssistant {
			continue
		}
		said = i
		for j := range msg.Parts {
			p := &msg.Parts[j]
			if p.Model != model {
				continue
			}
			switch p.Type {
			case cairn.PartProvider:
				r.place = place{}
				if err := json.Unmarshal(p.Provider, &r.place); err != nil {
					return nil, cairn.Errorf(cairn.ErrModelRequest, "agent %s: decode stored state of the remote session: %w", m.agent, err)
				}
			case cairn.PartToolUse:
				var a asked
				if err := json.Unmarshal(p.Provider, &a); err != nil {
					return nil, cairn.Errorf(cairn.ErrModelRequest, "agent %s: decode stored call: %w", m.agent, err)
				}
				refs[p.ToolUse.CallID] = a
			}
		}
	}
	if r.Session != sessionID(req.SessionID) {
		return nil, cairn.Errorf(cairn.ErrModelRequest, "agent %s is remote, so a branch of its session cannot be continued", m.agent)
	}
	r.take(req, said, refs)
	return r, nil
}

// take reads the messages after the last message of the model, which is the one at index said: answers to the calls
// in refs, or the user's input.
func (r *request) take(req *cairn.Request, said int, refs map[string]asked) {
	var texts []string
	var files []Attachment
	asks := false // whether the input is the user's, and not only that of a hook
	for i := said + 1; i < len(req.Messages); i++ {
		msg := &req.Messages[i]
		for j := range msg.Parts {
			switch p := &msg.Parts[j]; {
			case p.Result != nil:
				if a, ok := refs[p.Result.CallID]; ok {
					r.answers = append(r.answers, answer(a, useOf(req.Messages[:i], p.Result.CallID), p.Result))
				}
			case msg.Role != cairn.RoleUser || p.Text == "" && p.File == nil:
			case p.Type == cairn.PartText:
				texts = append(texts, p.Text)
			case p.Type == cairn.PartFile:
				files = append(files, fileOf(p.File))
			}
			asks = asks || msg.Role == cairn.RoleUser && !msg.Hidden
		}
	}
	if withdrawn(req.Messages[said+1:]) {
		r.answers = nil // the turn that is begun ends the wait there
	}
	if asks && len(r.answers) == 0 {
		r.input = &UserMessage{Text: strings.Join(texts, "\n\n"), Files: files}
	}
}

// withdrawn reports whether the calls of the previous reply were closed unanswered.
func withdrawn(list []cairn.Message) bool {
	return slices.ContainsFunc(list, func(m cairn.Message) bool { return m.Origin == cairn.OriginWithdrawn })
}

func fileOf(f *cairn.File) Attachment {
	url := f.URL
	if len(f.Data) > 0 {
		url = f.DataURL()
	}
	return Attachment{Name: f.Name, MediaType: f.MediaType, URL: url}
}

// useOf returns the arguments of a call.
func useOf(list []cairn.Message, callID string) json.RawMessage {
	for i := range slices.Backward(list) {
		for _, use := range list[i].ToolUses() {
			if use.CallID == callID {
				return use.Input
			}
		}
	}
	return nil
}

// answer returns the submission that forwards a result.
func answer(a asked, input json.RawMessage, result *cairn.ToolResult) cairn.Submission {
	ref := cairn.CallRef{ID: a.Call, Kind: a.Kind, ApprovalID: a.ApprovalID}
	words := ""
	if result.IsError {
		if json.Unmarshal(result.Output, &words); words == "" {
			words = "the call failed"
		}
	}
	switch {
	case a.Kind == cairn.CallApproval && result.IsError:
		return cairn.Deny(ref, strings.TrimPrefix(strings.TrimPrefix(words, "not approved by the user"), ": "))
	case a.Kind == cairn.CallApproval:
		s := cairn.Approve(ref)
		var got cairn.Approved
		if json.Unmarshal(result.Output, &got) == nil && !sameJSON(got.Input, input) {
			s.Input = got.Input
		}
		return s
	case result.IsError:
		return cairn.AnswerError(ref, words)
	}
	return cairn.Answer(ref, result.Output)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, _ := json.Marshal(x) // decoded values always encode, with their members sorted
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

// Stream implements cairn.Model.
func (m *remote) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		r, err := m.read(req)
		if err == nil {
			t := &talk{m: m, request: r, yield: yield}
			if err = t.run(ctx); errors.Is(err, errLeft) {
				return
			}
			if stopped := m.stopped(ctx); stopped != nil && err != nil { // a complete reply is followed by nothing
				err = stopped
			}
		}
		if err != nil {
			yield(cairn.Chunk{}, err)
		}
	}
}

// stopped returns the error of a call whose context is done, otherwise nil.
func (m *remote) stopped(ctx context.Context) error { return cairn.ContextError(ctx, "agent "+m.agent) }

// StopTurn implements cairn.Stopper. It stops the run there only if it belongs to a turn that one of the runs here
// began: a later turn must not be stopped.
func (m *remote) StopTurn(ctx context.Context, session string, runs []string) error {
	turns := make([]string, len(runs))
	for i, run := range runs {
		turns[i] = turnOf(session, run)
	}
	err := m.tryStop(ctx, sessionID(session), turns)
	switch {
	case isForeign(err): // does not show whether the session exists
		return err
	case errors.Is(err, cairn.ErrNotFound), errors.Is(err, cairn.ErrNotRunning):
		return nil
	}
	return err
}

func (m *remote) tryStop(ctx context.Context, session string, turns []string) error {
	row, err := m.client.Session(ctx, session)
	if err != nil || row.Status != cairn.SessionActive && row.Status != cairn.SessionPaused {
		return err
	}
	id := row.RunID
	page := &cairn.Page[cairn.Run]{}
	for first := true; first || page.Next != ""; first = false {
		if page, err = m.client.Runs(ctx, session, true, 100, page.Next); err != nil {
			return err
		}
		for i := range page.Items {
			switch run := &page.Items[i]; {
			case run.ID != id:
			case slices.Contains(turns, run.ID):
				return m.client.Interrupt(ctx, session, row.RunID, "the calling run was stopped")
			case run.PreviousRunID == "":
				return nil
			default:
				id = run.PreviousRunID
			}
		}
	}
	return nil
}

// errThere is the cause of errors that are the remote agent's own.
var errThere = errors.New("the remote agent failed")

// lost converts an error of the other server into the error of the run here. The server's own message goes to the
// details, since it may contain addresses and ids that are not meant for the user or the model.
func (m *remote) lost(err error) error {
	var e *cairn.Error
	if !errors.As(err, &e) {
		return cairn.Errorf(cairn.ErrModel, "agent %s: %w", m.agent, err)
	}
	out := *e
	words := e.Message
	if r := (*refused)(nil); errors.As(err, &r) {
		words, out.Details = r.detail, append(out.Details, e.Message)
	}
	out.Message, out.Cause = fmt.Sprintf("remote agent %s: %s", m.agent, words), err
	switch why := m.loss(e); {
	case errors.Is(err, errThere):
	case why != "":
		return &cairn.Error{Code: cairn.ErrLost, Message: why, Details: []string{e.Message}, Cause: err}
	case e.Code == cairn.ErrUnavailable || e.Code == cairn.ErrClosed:
		out.Code, out.Details = cairn.ErrOverloaded, []string{e.Message}
		out.Message = fmt.Sprintf("the server of agent %s cannot be reached", m.agent)
	case e.Code.Category() == cairn.CategoryModel:
	case e.Retryable():
		out.Code = cairn.ErrModel
	default:
		out.Code = cairn.ErrModelRequest
	}
	return &out
}

// loss returns why the agent is lost, if an error shows that it is; else empty.
func (m *remote) loss(e *cairn.Error) string {
	switch {
	case e.Code == cairn.ErrAuth:
		return fmt.Sprintf("the server of agent %s refuses the caller's credentials", m.agent)
	case e.Code == cairn.ErrNotFound && isForeign(e):
		return fmt.Sprintf("no Cairn server found at the address of agent %s", m.agent)
	case e.Code == cairn.ErrNotFound && e.Field == "agent":
		return fmt.Sprintf("agent %s not found on the remote server", m.agent)
	case e.Code == cairn.ErrNotFound:
		return fmt.Sprintf("the session of agent %s was not found on the remote server: it was deleted, has expired, or was lost", m.agent)
	case e.Code == cairn.ErrDeleted:
		return fmt.Sprintf("the session of agent %s was deleted on the remote server", m.agent)
	case e.Code == cairn.ErrExpired:
		return fmt.Sprintf("the session of agent %s has expired on the remote server", m.agent)
	}
	return ""
}
