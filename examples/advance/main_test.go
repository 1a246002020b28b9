package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func TestRun(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), filepath.Join(t.TempDir(), "advance.db")); err != nil {
		t.Fatal(err)
	}
}

//go:embed statemachine.json
var definition []byte

// machine is the part of the Amazon States Language that the definition uses.
type machine struct {
	Comment string
	StartAt string
	States  map[string]state
}

type state struct {
	Type, Comment, Resource, Next, Default, Error, Cause, OutputPath string
	TimeoutSeconds                                                   int
	Parameters                                                       struct {
		APIEndpoint, Method string
		Authentication      map[string]string
		Headers             map[string]string
		RequestBody         map[string]any
	}
	Retry []struct {
		ErrorEquals                                   []string
		IntervalSeconds, MaxDelaySeconds, MaxAttempts int
		BackoffRate                                   float64
	}
	Catch []struct {
		ErrorEquals      []string
		ResultPath, Next string
	}
	Choices []struct{ Variable, StringEquals, Next string }
}

// interpret executes the definition against a server, and returns the last state and its input. Retries do not pause.
func (m *machine) interpret(ctx context.Context, url string, input map[string]any) (string, map[string]any, error) {
	attempts := 0
	for name := m.StartAt; ; {
		s, ok := m.States[name]
		if !ok {
			return name, input, fmt.Errorf("no state %q", name)
		}
		switch s.Type {
		case "Task":
			out, failure := s.invoke(ctx, url, input)
			switch {
			case failure == "" && s.OutputPath == "$.ResponseBody":
				input, name, attempts = out, s.Next, 0
			case slices.Contains(s.Retry[0].ErrorEquals, failure) && attempts < s.Retry[0].MaxAttempts:
				attempts++
			default:
				input, name = map[string]any{"error": failure}, s.Catch[0].Next
			}
		case "Choice":
			name = s.Default
			for _, c := range slices.Backward(s.Choices) {
				if at(input, c.Variable) == c.StringEquals {
					name = c.Next
				}
			}
		case "Succeed":
			return name, input, nil
		case "Fail":
			return name, input, errors.New(s.Error + ": " + fmt.Sprint(input))
		default:
			return name, input, fmt.Errorf("unknown type %q", s.Type)
		}
	}
}

// at returns the value of a path of one name.
func at(input map[string]any, path string) any { return input[strings.TrimPrefix(path, "$.")] }

// invoke makes the request of a task. failure is the error's name, if it failed.
func (s *state) invoke(ctx context.Context, url string, input map[string]any) (out map[string]any, failure string) {
	body := map[string]any{}
	for name, v := range s.Parameters.RequestBody {
		if path, ok := strings.CutSuffix(name, ".$"); ok {
			name, v = path, at(input, v.(string))
		}
		body[name] = v
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, "States.Runtime"
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.TimeoutSeconds)*time.Second)
	defer cancel()
	address := url + s.Parameters.APIEndpoint[strings.LastIndexByte(s.Parameters.APIEndpoint, '/'):]
	req, err := http.NewRequestWithContext(ctx, s.Parameters.Method, address, bytes.NewReader(raw))
	if err != nil {
		return nil, "States.Runtime"
	}
	for name, v := range s.Parameters.Headers {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "States.Http.Socket"
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return nil, fmt.Sprintf("States.Http.StatusCode.%d", resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, "States.Http.Socket"
	}
	return out, ""
}

// unreliable loses requests and answers, and serves some requests twice at once.
func unreliable(h http.Handler) http.Handler {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 1))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fate := rng.IntN(5)
		mu.Unlock()
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		serve := func() *httptest.ResponseRecorder {
			again := r.Clone(r.Context())
			again.Body = http.NoBody
			if body.Len() > 0 {
				again, _ = http.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), bytes.NewReader(body.Bytes()))
				again.Header, again.Host, again.RemoteAddr = r.Header, r.Host, r.RemoteAddr
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, again)
			return rec
		}
		switch fate {
		case 0:
			w.WriteHeader(http.StatusBadGateway)
			return
		case 1:
			serve()
			panic(http.ErrAbortHandler)
		case 2:
			var second sync.WaitGroup
			second.Go(func() { serve() })
			defer second.Wait()
		}
		rec := serve()
		for name := range rec.Header() {
			w.Header().Set(name, rec.Header().Get(name))
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

// The definition drives runs to their end, over a network that loses and doubles requests.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	var m machine
	strict := json.NewDecoder(bytes.NewReader(definition))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if len(m.States) != 5 {
		t.Errorf("%d states", len(m.States))
	}
	st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "advance.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	begun := make(chan string, 1)
	handler, eng, err := serve(st, func(ticket string) { begun <- ticket })
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	web := httptest.NewServer(unreliable(handler))
	defer web.Close()
	for n := range 10 {
		id := fmt.Sprint("session-", n)
		run, err := eng.Execute(t.Context(), id, "support", cairn.Text("Where is order 42?"))
		if err != nil {
			t.Fatal(err)
		}
		last, out, err := m.interpret(t.Context(), web.URL, map[string]any{"ticket": <-begun})
		if err != nil || last != "Done" || out["status"] != string(cairn.RunCompleted) {
			t.Fatalf("ends in %s with %v, error %v", last, out, err)
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Usage.ModelCalls != 2 || res.Usage.ToolCalls != 1 {
			t.Errorf("%+v, error %v", res, err)
		}
	}
	if last, _, err := m.interpret(t.Context(), web.URL, map[string]any{"ticket": "invalid"}); last != "Lost" || err == nil {
		t.Errorf("without a ticket, it ends in %s, error %v", last, err)
	}
}
