package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/cairn-agents/cairn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/adk/v2/model"
	adk "google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const (
	appName  = "shop"
	userName = "user"
)

// adkSystem keeps sessions with ADK's database service. A step is three appends: the reply, the result, and the
// change of the state.
type adkSystem struct {
	conversation *conversation
	database     *postgresDatabase
	connections  *sql.DB
	service      adk.Service
	templates    templates
}

type adkSession struct {
	system  *adkSystem
	session adk.Session
	next    int
}

// newADK makes the driver prepare statements, as ADK's own tests do, and disables its logging.
func newADK(c *conversation, db *postgresDatabase, writers int) (*adkSystem, error) {
	connections, err := sql.Open("pgx", db.url)
	if err != nil {
		return nil, err
	}
	connections.SetMaxOpenConns(writers)
	connections.SetMaxIdleConns(writers)
	service, err := database.NewSessionService(postgres.New(postgres.Config{Conn: connections}),
		&gorm.Config{Logger: logger.Discard, PrepareStmt: true})
	if err != nil {
		return nil, err
	}
	return &adkSystem{conversation: c, database: db, connections: connections, service: service}, database.AutoMigrate(service)
}

func (a *adkSystem) stored(ctx context.Context) (int64, error) { return a.database.stored(ctx) }

func (a *adkSystem) close() error { return a.connections.Close() }

// templateEvents is the number of a template's events that are appended. The others are copies of them: appending
// ten thousand events takes longer than the whole measurement.
const templateEvents = 2 + 2*variants

const (
	sqlRepeatEvents = `
		INSERT INTO events
		SELECT r.*
		FROM generate_series($2::int, $3::int - 1) g (number)
			JOIN (SELECT e AS event, row_number() OVER (ORDER BY timestamp) - 1 AS number FROM events e WHERE session_id = $1) e
				ON e.number = 2 + (g.number - 2) % ($2 - 2),
			LATERAL jsonb_populate_record(e.event, jsonb_build_object('id', 'event-' || g.number,
				'timestamp', (SELECT max(timestamp) FROM events WHERE session_id = $1) + g.number * interval '1 microsecond')) r`

	sqlCopyEvents = `
		INSERT INTO events
		SELECT r.*
		FROM events e, LATERAL jsonb_populate_record(e, jsonb_build_object('session_id', $2::text)) r
		WHERE e.session_id = $1`
)

// open creates the session with the service, copies the events of a template into it, and reads it, as ADK's runner
// does before each turn.
func (a *adkSystem) open(ctx context.Context, id string, n int) (session, error) {
	template, err := a.templates.of(n, func(id string) error { return a.fill(ctx, id, n) })
	if err != nil {
		return nil, err
	}
	if _, err := a.create(ctx, id, n); err != nil {
		return nil, err
	}
	if _, err := a.connections.ExecContext(ctx, sqlCopyEvents, template, id); err != nil {
		return nil, err
	}
	got, err := a.service.Get(ctx, &adk.GetRequest{AppName: appName, UserID: userName, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &adkSession{system: a, session: got.Session, next: firstStep(n)}, nil
}

func (a *adkSystem) create(ctx context.Context, id string, n int) (adk.Session, error) {
	state := map[string]any{}
	for name, value := range a.conversation.after(n, 0).State {
		state[name] = value
	}
	made, err := a.service.Create(ctx, &adk.CreateRequest{AppName: appName, UserID: userName, SessionID: id, State: state})
	if err != nil {
		return nil, err
	}
	return made.Session, nil
}

func (a *adkSystem) fill(ctx context.Context, id string, n int) error {
	s, err := a.create(ctx, id, n)
	if err != nil {
		return err
	}
	appended := min(n, templateEvents)
	for _, m := range a.conversation.history(appended) {
		if err := a.service.AppendEvent(ctx, s, m.adk(ctx)); err != nil {
			return err
		}
	}
	_, err = a.connections.ExecContext(ctx, sqlRepeatEvents, id, appended, n)
	return err
}

func (s *adkSession) step(ctx context.Context) error {
	var events []*adk.Event
	for _, m := range s.system.conversation.messages(s.next) {
		events = append(events, m.adk(ctx))
	}
	change := adk.NewEvent(ctx, "run")
	change.Author = "support"
	change.Actions.StateDelta[field(s.next)] = s.system.conversation.exchange(s.next).Value
	for _, ev := range append(events, change) {
		if err := s.system.service.AppendEvent(ctx, s.session, ev); err != nil {
			return err
		}
	}
	s.next++
	return nil
}

func (s *adkSession) read(ctx context.Context) (out transcript, err error) {
	got, err := s.system.service.Get(ctx, &adk.GetRequest{AppName: appName, UserID: userName, SessionID: s.session.ID()})
	if err != nil {
		return out, err
	}
	for ev := range got.Session.Events().All() {
		if ev.Content == nil {
			continue
		}
		m := message{Role: cairn.RoleAssistant}
		if ev.Content.Role == genai.RoleUser {
			m.Role = cairn.RoleUser
		}
		for _, part := range ev.Content.Parts {
			switch {
			case part.FunctionCall != nil:
				m.Call = part.FunctionCall.ID
				err = json.Unmarshal(encode(part.FunctionCall.Args), &m.Input)
			case part.FunctionResponse != nil:
				m.Role, m.Call, m.Result = cairn.RoleTool, part.FunctionResponse.ID, fmt.Sprint(part.FunctionResponse.Response["result"])
			default:
				m.Text = part.Text
			}
			if err != nil {
				return out, err
			}
		}
		out.Messages, out.Times = append(out.Messages, m), append(out.Times, ev.Timestamp)
	}
	out.State = map[string]string{}
	for name, value := range maps.Collect(got.Session.State().All()) {
		out.State[name] = fmt.Sprint(value)
	}
	return out, nil
}

// adk converts a message to an event of ADK.
func (m message) adk(ctx context.Context) *adk.Event {
	content := &genai.Content{Role: genai.RoleModel}
	author := "support"
	if m.Text != "" {
		content.Parts = append(content.Parts, genai.NewPartFromText(m.Text))
	}
	switch {
	case m.Role == cairn.RoleUser:
		content.Role, author = genai.RoleUser, userName
	case m.Result != "":
		content.Role = genai.RoleUser
		content.Parts = append(content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: m.Call, Name: toolName, Response: map[string]any{"result": m.Result}}})
	case m.Call != "":
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{
			ID: m.Call, Name: toolName, Args: map[string]any{"order": m.Input.Order, "note": m.Input.Note}}})
	}
	ev := adk.NewEvent(ctx, "run")
	ev.Author, ev.LLMResponse = author, model.LLMResponse{Content: content}
	return ev
}

// templates are sessions that others are copied from, one for each length of history.
type templates struct {
	mu   sync.Mutex
	made map[int]string
}

// of returns the id of the template with n messages. If there is none yet, fill creates it.
func (t *templates) of(n int, fill func(id string) error) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.made[n]
	if ok {
		return id, nil
	}
	id = fmt.Sprintf("template-%d", n)
	if err := fill(id); err != nil {
		return "", fmt.Errorf("fill a session with %d messages: %w", n, err)
	}
	if t.made == nil {
		t.made = map[int]string{}
	}
	t.made[n] = id
	return id, nil
}
