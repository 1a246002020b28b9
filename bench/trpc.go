package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"trpc.group/trpc-go/trpc-agent-go/event"
	"trpc.group/trpc-go/trpc-agent-go/model"
	trpcsession "trpc.group/trpc-go/trpc-agent-go/session"
	trpcredis "trpc.group/trpc-go/trpc-agent-go/session/redis"
)

// trpcSystem keeps sessions with trpc-agent-go's Redis service, which persists each append before it returns. A
// step is three appends: the reply, the result, and the change of the state.
type trpcSystem struct {
	conversation *conversation
	database     *redisDatabase
	service      *trpcredis.Service
	templates    templates
}

type trpcSession struct {
	system  *trpcSystem
	session *trpcsession.Session
	next    int
}

// everyEvent is a limit that no session here reaches, since the other systems read all of their history.
const everyEvent = 1_000_000

// newTRPC disables lookups in an older layout, which no session here has.
func newTRPC(c *conversation, db *redisDatabase, writers int) (*trpcSystem, error) {
	service, err := trpcredis.NewService(trpcredis.WithRedisClientURL(fmt.Sprintf("%s&pool_size=%d", db.url, writers)),
		trpcredis.WithSessionEventLimit(everyEvent), trpcredis.WithCompatMode(trpcredis.CompatModeNone))
	return &trpcSystem{conversation: c, database: db, service: service}, err
}

func (t *trpcSystem) stored(ctx context.Context) (int64, error) { return t.database.stored(ctx) }

func (t *trpcSystem) close() error { return t.service.Close() }

func trpcKey(id string) trpcsession.Key {
	return trpcsession.Key{AppName: appName, UserID: userName, SessionID: id}
}

// open creates the session with the service and copies the events of a template into it. It does not read them,
// since the service cannot read ten thousand events: the session in memory is that of the process that wrote them.
func (t *trpcSystem) open(ctx context.Context, id string, n int) (session, error) {
	template, err := t.templates.of(n, func(id string) error { return t.fill(ctx, id, n) })
	if err != nil {
		return nil, err
	}
	s, err := t.create(ctx, id, n)
	if err != nil {
		return nil, err
	}
	for _, m := range t.conversation.history(n) {
		s.UpdateUserSession(m.trpc())
	}
	return &trpcSession{system: t, session: s, next: firstStep(n)}, t.database.copy(ctx, template, id)
}

func (t *trpcSystem) create(ctx context.Context, id string, n int) (*trpcsession.Session, error) {
	state := trpcsession.StateMap{}
	for name, value := range t.conversation.after(n, 0).State {
		state[name] = []byte(value)
	}
	return t.service.CreateSession(ctx, trpcKey(id), state)
}

func (t *trpcSystem) fill(ctx context.Context, id string, n int) error {
	s, err := t.create(ctx, id, n)
	if err != nil {
		return err
	}
	for _, m := range t.conversation.history(n) {
		if err := t.service.AppendEvent(ctx, s, m.trpc()); err != nil {
			return err
		}
	}
	return nil
}

func (s *trpcSession) step(ctx context.Context) error {
	var events []*event.Event
	for _, m := range s.system.conversation.messages(s.next) {
		events = append(events, m.trpc())
	}
	change := event.New("run", "support")
	change.StateDelta = map[string][]byte{field(s.next): []byte(s.system.conversation.exchange(s.next).Value)}
	for _, ev := range append(events, change) {
		if err := s.system.service.AppendEvent(ctx, s.session, ev); err != nil {
			return err
		}
	}
	s.next++
	return nil
}

func (s *trpcSession) read(ctx context.Context) (out transcript, err error) {
	found, err := s.system.service.GetSession(ctx, trpcKey(s.session.ID))
	if err != nil {
		return out, err
	}
	for _, ev := range found.GetEvents() {
		for _, choice := range ev.Choices {
			m := message{Role: cairn.Role(choice.Message.Role), Text: choice.Message.Content}
			if m.Role == cairn.RoleTool {
				m.Text, m.Result, m.Call = "", choice.Message.Content, choice.Message.ToolID
			}
			for _, c := range choice.Message.ToolCalls {
				m.Call = c.ID
				if err := json.Unmarshal(c.Function.Arguments, &m.Input); err != nil {
					return out, err
				}
			}
			out.Messages = append(out.Messages, m)
		}
	}
	out.State = map[string]string{}
	for name, value := range found.SnapshotState() {
		out.State[name] = string(value)
	}
	return out, nil
}

// trpc converts a message to an event of trpc-agent-go.
func (m message) trpc() *event.Event {
	out, author := model.NewAssistantMessage(m.Text), "support"
	switch {
	case m.Role == cairn.RoleUser:
		out, author = model.NewUserMessage(m.Text), userName
	case m.Result != "":
		out = model.NewToolMessage(m.Call, toolName, m.Result)
	case m.Call != "":
		out.ToolCalls = []model.ToolCall{{Type: "function", ID: m.Call,
			Function: model.FunctionDefinitionParam{Name: toolName, Arguments: encode(m.Input)}}}
	}
	return event.NewResponseEvent("run", author, &model.Response{Choices: []model.Choice{{Message: out}}, Done: true})
}
