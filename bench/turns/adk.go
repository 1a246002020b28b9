package main

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"sync"

	_ "github.com/jackc/pgx/v5/stdlib"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

const (
	appName  = "shop"
	userName = "user"
)

// adkRunner is ADK's runner with its database sessions, prepared statements and no logging.
type adkRunner struct {
	connections *sql.DB
	service     session.Service
	runner      *runner.Runner
	made        sync.Map // sessions that were created
}

func newADK(_ context.Context, url string, connections int) (system, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	service, err := database.NewSessionService(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard, PrepareStmt: true})
	if err != nil {
		return nil, err
	}
	if err := database.AutoMigrate(service); err != nil {
		return nil, err
	}
	lookUp, err := functiontool.New(functiontool.Config{Name: toolName, Description: toolText},
		func(agent.Context, arguments) (outcome, error) { return outcome{result}, nil })
	if err != nil {
		return nil, err
	}
	support, err := llmagent.New(llmagent.Config{Name: "support", Model: adkModel{}, Tools: []tool.Tool{lookUp}})
	if err != nil {
		return nil, err
	}
	r, err := runner.New(runner.Config{AppName: appName, Agent: support, SessionService: service})
	return &adkRunner{connections: db, service: service, runner: r}, err
}

// adkModel answers at once: with a call, and after its result with text.
type adkModel struct{}

func (adkModel) Name() string { return "scripted" }

func (adkModel) GenerateContent(_ context.Context, r *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		content := genai.NewContentFromText(answer, genai.RoleModel)
		last := r.Contents[len(r.Contents)-1]
		if last.Parts[len(last.Parts)-1].FunctionResponse == nil {
			content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{genai.NewPartFromText(reply),
				genai.NewPartFromFunctionCall(toolName, map[string]any{"order": "4711", "note": note})}}
		}
		yield(&model.LLMResponse{Content: content, FinishReason: genai.FinishReasonStop}, nil)
	}
}

func (a *adkRunner) turn(ctx context.Context, id string) error {
	if _, there := a.made.LoadOrStore(id, true); !there {
		if _, err := a.service.Create(ctx, &session.CreateRequest{AppName: appName, UserID: userName, SessionID: id}); err != nil {
			return err
		}
	}
	for ev, err := range a.runner.Run(ctx, userName, id, genai.NewContentFromText(question, genai.RoleUser), agent.RunConfig{}) {
		switch {
		case err != nil:
			return err
		case ev.ErrorCode != "":
			return fmt.Errorf("adk: %s: %s", ev.ErrorCode, ev.ErrorMessage)
		}
	}
	return nil
}

func (a *adkRunner) read(ctx context.Context, id string) (texts []string, err error) {
	got, err := a.service.Get(ctx, &session.GetRequest{AppName: appName, UserID: userName, SessionID: id})
	if err != nil {
		return nil, err
	}
	for ev := range got.Session.Events().All() {
		if ev.Content == nil {
			continue
		}
		text := ""
		for _, part := range ev.Content.Parts {
			if text += part.Text; part.FunctionResponse != nil {
				text = fmt.Sprint(part.FunctionResponse.Response["result"])
			}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func (a *adkRunner) close() error { return a.connections.Close() }
