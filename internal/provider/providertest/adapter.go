// Package providertest has the tests that every adapter of a provider must pass.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/testserver"
	"github.com/cairn-agents/cairn/internal/testclock"
)

// Wire says how a reply is sent, and which faults occur.
type Wire = testserver.Wire

// Endpoint holds the options that all adapters have.
type Endpoint struct {
	BaseURL string
	APIKey  string
	Client  *http.Client
	Idle    time.Duration
}

// Adapter is an adapter under test. Q and R are the request and reply types of its server.
type Adapter[Q, R any] struct {
	// Name is the name of the provider, and Path a piece of the address that errors must not repeat.
	Name string
	Path string
	// Variable is the prefix of the environment variables of key and base URL.
	Variable string
	Model    func(name string, e Endpoint) cairn.Model
	Server   func(replies ...R) *testserver.Server[Q, R]
	// Text returns a reply of text that is sent as w says.
	Text func(text string, w Wire) R
	// Piece, Last and Done are events: for some text, for the reply's end, and after the end. Done may be empty.
	Piece, Last, Done string
	// Delta is an event with more text for what Piece began. Default: Piece.
	Delta string
	// Attaching says where files of results are sent.
	Attaching Attaching
}

// Run runs the tests that are the same for all adapters. It changes the environment of the test, so t must not be
// parallel.
func (a Adapter[Q, R]) Run(t *testing.T) {
	t.Run("options", a.options)
	t.Run("environment", a.environment)
	t.Run("allocations", a.allocations)
	for name, f := range map[string]func(*testing.T){
		"streams": a.streams, "unicode": a.unicode, "reader may stop": a.readerStops, "retry after": a.retryAfter, "should retry": a.shouldRetry, "reports": a.reports, "key": a.key, "unreachable": a.unreachable,
		"no stream": a.noStream, "error of status 200": a.quietError, "redirect": a.redirect, "endless error": a.endlessError, "dropped": a.dropped, "cancel": a.cancel, "idle": a.idle, "timeout": a.timeout, "stop": a.stop, "large": a.large, "left open": a.leftOpen, "raw error": a.rawError, "forced call": a.forcedCall, "fields of tools": a.toolFields, "native output": a.nativeOutput, "refused output": a.refusedOutput, "files of results": a.attachedFiles, "files without results": a.detachedFiles, "refused files of results": a.refusedFiles,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

// Answer is an error response, and the error that an adapter must return for it.
type Answer struct {
	Wire Wire
	Code cairn.Code
	Says string
}

// Failure is an error response. Is adds the expected error.
type Failure Wire

// Failing is an error response in the provider's form.
func Failing(status int, code, message string) Failure {
	return Failure{Status: status, Code: code, Message: message}
}

// Body is an error response of any form.
func Body(status int, body string) Failure { return Failure{Status: status, Raw: body} }

// Is returns the answer for which f must be an error with a code and some text.
func (f Failure) Is(code cairn.Code, says string) Answer { return Answer{Wire(f), code, says} }

// Answers checks the errors for error responses.
func (a Adapter[Q, R]) Answers(t *testing.T, cases map[string]Answer) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, server := a.serve(t, a.Text("", c.Wire))
			chunks, err := Ask(t.Context(), m, Hello())
			e := cairn.AsError(err)
			if e == nil || e.Code != c.Code || !strings.Contains(e.Message, c.Says) || len(chunks) > 0 {
				t.Errorf("got %v, %+v\nwant %s, %q", chunks, e, c.Code, c.Says)
			}
			if e != nil && (!strings.HasPrefix(e.Message, a.Name+`: model "test-model": `) || len(e.Message) > 1200) {
				t.Errorf("message %q", e.Message)
			}
			if n := len(server.Requests()); n != 1 {
				t.Errorf("%d requests were made: retries are the engine's", n)
			}
		})
	}
}

// Fuzz reads arbitrary input as a stream, and sends back what the adapter returned for it.
func (a Adapter[Q, R]) Fuzz(f *testing.F) {
	for _, stream := range Streams(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		m := a.through(Plays(stream))
		chunks, err := Ask(t.Context(), m, Hello())
		if problem := WellFormed(chunks, err); problem != "" {
			t.Fatalf("%s:\n%s", problem, Lines(chunks, err))
		}
		req := Hello()
		req.Messages = append(req.Messages, cairn.Message{Role: cairn.RoleAssistant, Parts: Parts(chunks)}, cairn.User(cairn.TextPart("And?")))
		if _, err := Ask(t.Context(), m, req); err != nil && strings.Contains(err.Error(), "cannot be encoded") {
			t.Fatal(err)
		}
	})
}

func (a Adapter[Q, R]) through(f Transport) cairn.Model {
	return a.Model("m", Endpoint{BaseURL: "https://model.example/v1", APIKey: "k-1234", Client: f.Client()})
}

func (a Adapter[Q, R]) serve(t testing.TB, replies ...R) (cairn.Model, *testserver.Server[Q, R]) {
	t.Helper()
	server := a.Server(replies...)
	t.Cleanup(server.Close)
	return a.Model("test-model", Endpoint{BaseURL: server.BaseURL, APIKey: "sk-secret"}), server
}

// streams reads each recorded stream as a server may send it: in one piece, byte by byte, with other line ends, and
// in each of the framings. All must give the same chunks.
func (a Adapter[Q, R]) streams(t *testing.T) {
	for name, stream := range Streams(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crlf := strings.ReplaceAll(stream, "\n", "\r\n")
			wires := []Wire{{Raw: stream}, {Raw: stream, Piece: 1}, {Raw: stream, Piece: 7}, {Raw: crlf, Piece: 3}}
			for _, reframe := range framings {
				wires = append(wires, Wire{Raw: reframe(stream), Piece: 5})
			}
			var replies []R
			for _, w := range wires {
				replies = append(replies, a.Text("", w))
			}
			m, server := a.serve(t, replies...)
			host, _, _ := strings.Cut(strings.TrimPrefix(server.BaseURL, "http://"), "/")
			for i := range replies {
				chunks, err := Ask(t.Context(), m, Hello())
				if problem := WellFormed(chunks, err); problem != "" {
					t.Errorf("%+v: %s", wires[i].Piece, problem)
				}
				if i == 0 || !*update {
					Golden(t, "streams/"+name+".golden", strings.ReplaceAll(Lines(chunks, err), host, "HOST"))
				}
			}
		})
	}
}

// unicode splits characters in two.
func (a Adapter[Q, R]) unicode(t *testing.T) {
	const text = "Grüße, 世界 👩‍🚀!"
	for piece := 1; piece < 5; piece++ {
		m, _ := a.serve(t, a.Text(text, Wire{Piece: piece}))
		chunks, err := Ask(t.Context(), m, Hello())
		var b strings.Builder
		for _, c := range chunks {
			b.WriteString(c.Text)
		}
		if b.String() != text || err != nil {
			t.Errorf("in pieces of %d: %q, %v", piece, b.String(), err)
		}
	}
}

func (a Adapter[Q, R]) readerStops(t *testing.T) {
	stream := Streams(t)["tools_parallel"]
	all, err := Ask(t.Context(), a.through(Plays(stream)), Hello())
	if err != nil {
		t.Fatal(err)
	}
	for n := range all {
		seen := 0
		for range a.through(Plays(stream)).Stream(t.Context(), Hello()) {
			if seen++; seen == n+1 {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("stopping after %d chunks: saw %d", n+1, seen)
		}
	}
}

func (a Adapter[Q, R]) retryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"Retry-After: 7":       7 * time.Second,
		"Retry-After: 0.5":     500 * time.Millisecond,
		"Retry-After-Ms: 1500": 1500 * time.Millisecond,
		"Retry-After: -3":      0,
		"Retry-After: NaN":     0,
		"Retry-After: soon":    0,
		"Retry-After: 1e300":   24 * time.Hour,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: Fri, 13 Nov 2026 10:01:30 GMT": 90 * time.Second,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: Fri, 13 Nov 2026 09:00:00 GMT": 0,
		"Retry-After: 12s":                            12 * time.Second,
		"Retry-After: 1m0.5s":                         time.Minute + 500*time.Millisecond,
		"Retry-After-Ms: 250.5":                       250500 * time.Microsecond,
		"Retry-After-Ms: 86400001":                    24 * time.Hour,
		"Retry-After: 99999h":                         24 * time.Hour,
		"Retry-After: 9223372036854":                  24 * time.Hour,
		"Retry-After: 3|X-Ratelimit-Reset-Tokens: 6s": 3 * time.Second,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: 2026-11-13T10:00:20Z":           20 * time.Second,
		"Date: Fri, 13 Nov 2026 10:00:00 GMT|Retry-After: Friday, 13-Nov-26 10:00:30 GMT": 30 * time.Second,
		"X-Other: 1": 0,
	} {
		w := Wire{Status: http.StatusTooManyRequests, Message: "Slow down.", Header: headerOf(header)}
		overloaded := w
		overloaded.Status = 529
		m, server := a.serve(t, a.Text("", w), a.Text("", overloaded))
		for _, code := range []cairn.Code{cairn.ErrRateLimited, cairn.ErrOverloaded} {
			_, err := Ask(t.Context(), m, Hello())
			if e := cairn.AsError(err); e == nil || e.RetryAfter != cairn.Duration(want) || !e.Retryable() || e.Code != code {
				t.Errorf("%s: %+v, want %s after %v", header, e, code, want)
			}
		}
		if n := len(server.Requests()); n != 2 {
			t.Errorf("%d requests were made: retries are the engine's", n)
		}
	}
}

// headerOf returns the header of lines separated by |.
func headerOf(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "|") {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

func (a Adapter[Q, R]) key(t *testing.T) {
	const key = "sk-very-secret"
	server := a.Server(a.Text("", Wire{Status: http.StatusUnauthorized, Code: "UNAUTHENTICATED", Message: "bad key " + key}),
		a.Text("", Wire{Raw: "data: " + key + "\n\n"}),
		a.Text("", Wire{Raw: `data: {"type":"error","error":{"message":"key ` + key + ` is blocked","code":401}}` + "\n\n"}))
	t.Cleanup(server.Close)
	broken := Transport(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("cannot send %v", r.Header) })
	m := a.Model("m", Endpoint{BaseURL: server.BaseURL, APIKey: key})
	for i, m := range []cairn.Model{m, m, m, a.Model("m", Endpoint{BaseURL: "https://model.example", APIKey: key, Client: broken.Client()})} {
		_, err := Ask(t.Context(), m, Hello())
		if err == nil {
			t.Errorf("call %d succeeded", i)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%+v %#v", e, e); strings.Contains(text, key) {
				t.Errorf("call %d: %s", i, text)
			}
		}
	}
}

func (a Adapter[Q, R]) unreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	tls := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate is not trusted
	t.Cleanup(tls.Close)
	for _, c := range []struct {
		base string
		code cairn.Code
		says string
	}{
		{"http://" + address, cairn.ErrOverloaded, "connection refused"},
		{tls.URL, cairn.ErrModelRequest, "certificate"},
	} {
		_, err = Ask(t.Context(), a.Model("m", Endpoint{BaseURL: c.base, APIKey: "k-1234"}), Hello())
		e := cairn.AsError(err)
		if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || strings.Contains(e.Message, a.Path) {
			t.Errorf("%s: %+v", c.base, e)
		}
	}
}

func (a Adapter[Q, R]) noStream(t *testing.T) {
	m := a.through(answers("text/html; charset=utf-8", func(*http.Request) io.ReadCloser { return io.NopCloser(strings.NewReader("<html>")) }))
	_, err := Ask(t.Context(), m, Hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrModelRequest || !strings.Contains(e.Message, "base URL") {
		t.Errorf("%+v", e)
	}
}

// quietError tests a server that reports an error with a success status, as gateways do.
func (a Adapter[Q, R]) quietError(t *testing.T) {
	for body, code := range map[string]cairn.Code{
		`{"error":{"type":"overloaded_error","message":"Too busy."}}`:                       cairn.ErrOverloaded,
		`{"error":{"code":429,"message":"Too busy.","status":"RESOURCE_EXHAUSTED"}}`:        cairn.ErrRateLimited,
		`{"error":{"code":"context_length_exceeded","message":"Too busy with all of it."}}`: cairn.ErrContextLength,
	} {
		m := a.through(answers("application/json", func(*http.Request) io.ReadCloser { return io.NopCloser(strings.NewReader(body)) }))
		_, err := Ask(t.Context(), m, Hello())
		if e := cairn.AsError(err); e == nil || e.Code != code || !strings.Contains(e.Message, "Too busy") {
			t.Errorf("%s: %+v", body, e)
		}
	}
}

// endlessError tests a server whose error response does not end: its beginning must be enough.
func (a Adapter[Q, R]) endlessError(t *testing.T) {
	body := &zeros{left: 64 << 20}
	m := a.through(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	})
	_, err := Ask(t.Context(), m, Hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrOverloaded || !strings.Contains(e.Message, "0000") {
		t.Errorf("%+v", e)
	}
	if read := 64<<20 - body.left; read > 1<<20 {
		t.Errorf("%d bytes of an error were read", read)
	}
}

// zeros is a reader of a very long text.
type zeros struct{ left int }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(len(p), z.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		p[i] = '0'
	}
	z.left -= n
	return n, nil
}

// redirect tests a server that redirects to another one. Neither the key nor the conversation may be sent there.
func (a Adapter[Q, R]) redirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked: %s %v", r.Method, r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/there?x=y", status))
		t.Cleanup(server.Close)
		_, err := Ask(t.Context(), a.Model("m", Endpoint{BaseURL: server.URL, APIKey: "sk-secret"}), Hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrModelRequest || !strings.Contains(e.Message, "redirects to "+elsewhere.URL+"/there;") {
			t.Errorf("%d: %+v", status, e)
		}
	}
	var again *httptest.Server // redirects within the server are followed
	again = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/new") {
			http.Redirect(w, r, again.URL+"/new"+r.URL.Path, http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, a.Piece+a.Last+a.Done)
	}))
	t.Cleanup(again.Close)
	if chunks, err := Ask(t.Context(), a.Model("m", Endpoint{BaseURL: again.URL, APIKey: "sk-secret"}), Hello()); err != nil {
		t.Errorf("within the server: %s", Lines(chunks, err))
	}
}

func (a Adapter[Q, R]) dropped(t *testing.T) {
	m, _ := a.serve(t, a.Text("one two three", Wire{BreakAfter: 2}), a.Text("one", Wire{ErrorAfter: 1, Code: "overloaded_error", Message: "Overloaded"}))
	chunks, err := Ask(t.Context(), m, Hello())
	if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrModel || !e.Retryable() || !strings.Contains(e.Message, "ended") {
		t.Errorf("got\n%s", Lines(chunks, err))
	}
	if chunks, err := Ask(t.Context(), m, Hello()); err == nil || cairn.AsError(err).Code != cairn.ErrOverloaded || !cairn.AsError(err).Retryable() {
		t.Errorf("an error event: got\n%s", Lines(chunks, err))
	}
	half := answers("text/event-stream", func(*http.Request) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(a.Piece+a.Last), errReader{}))
	})
	if chunks, err := Ask(t.Context(), a.through(half), Hello()); err != nil || chunks[len(chunks)-1].FinishReason != cairn.FinishReasonEnd {
		t.Errorf("a connection dropped after the end: got\n%s", Lines(chunks, err))
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// slowBody sends pieces with a pause before each, then nothing more until its request is cancelled.
type slowBody struct {
	ctx    context.Context
	pause  time.Duration
	pieces []string
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	if err := testclock.Pause(b.ctx, b.pause); err != nil {
		return 0, err
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// slow responds with a slowBody.
func slow(pause time.Duration, pieces ...string) Transport {
	return answers("text/event-stream", func(r *http.Request) io.ReadCloser { return &slowBody{r.Context(), pause, pieces} })
}

func (a Adapter[Q, R]) idle(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		idle   time.Duration // 0 is the default of 2 minutes
		fails  bool
		took   time.Duration
	}{
		"silent from the start": {nil, 0, true, 2 * time.Minute},
		"silent after a while":  {[]string{a.Piece, a.Piece}, time.Minute, true, 40*time.Second + time.Minute},
		"slow but steady":       {[]string{a.Piece, a.Piece, a.Piece, a.Piece, a.Last + a.Done}, 30 * time.Second, false, 100 * time.Second},
		"silent before the end": {[]string{a.Piece}, time.Minute, true, 80 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			m := a.Model("m", Endpoint{BaseURL: "https://model.example", APIKey: "k", Client: slow(20*time.Second, c.pieces...).Client(), Idle: c.idle})
			// A stream without an end marker ends with its body, so the steady one must be closed.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var chunks []cairn.Chunk
			var err error
			for chunk, streamErr := range m.Stream(ctx, Hello()) {
				if err = streamErr; err != nil {
					break
				}
				if chunks = append(chunks, chunk); chunk.Type == cairn.ChunkFinish {
					break
				}
			}
			if e := cairn.AsError(err); c.fails != (e != nil) || e != nil && (e.Code != cairn.ErrOverloaded || !strings.Contains(e.Message, "no data received")) {
				t.Errorf("%s: %+v", name, e)
			}
			if !c.fails && (len(chunks) == 0 || chunks[len(chunks)-1].Type != cairn.ChunkFinish) {
				t.Errorf("%s: got\n%s", name, Lines(chunks, err))
			}
			most := c.took
			if !c.fails {
				most += 30 * time.Second // for the silence after the end
			}
			if took := time.Since(began); took < c.took || took > most {
				t.Errorf("%s took %v, want %v to %v", name, took, c.took, most)
			}
		})
	}
}

// large sends an image of 10 MB.
func (a Adapter[Q, R]) large(t *testing.T) {
	m, server := a.serve(t, a.Text("Seen.", Wire{}))
	req := Hello()
	req.Messages[0].Parts = append(req.Messages[0].Parts, cairn.FilePart(cairn.File{MediaType: "image/png", Data: make([]byte, 10<<20)}))
	if chunks, err := Ask(t.Context(), m, req); err != nil || len(server.Requests()) != 1 {
		t.Errorf("got\n%s", Lines(chunks, err))
	}
}

func (a Adapter[Q, R]) options(t *testing.T) {
	t.Setenv(a.Variable+"_API_KEY", "")
	t.Setenv(a.Variable+"_BASE_URL", "")
	const local = "http://localhost:1/v1"
	for name, c := range map[string]struct {
		model string
		e     Endpoint
		code  cairn.Code
		field string
	}{
		"no key":           {"m", Endpoint{}, cairn.ErrAuth, "APIKey"},
		"key of two lines": {"m", Endpoint{APIKey: "sk-1\nsk-2"}, cairn.ErrAuth, "APIKey"},
		"no address":       {"m", Endpoint{BaseURL: "localhost:8000"}, cairn.ErrModelRequest, "BaseURL"},
		"bad address":      {"m", Endpoint{BaseURL: "http://a b"}, cairn.ErrModelRequest, "BaseURL"},
		"query":            {"m", Endpoint{BaseURL: local + "?key=secret"}, cairn.ErrModelRequest, "BaseURL"},
		"password":         {"m", Endpoint{BaseURL: "http://me:secret@localhost/v1"}, cairn.ErrModelRequest, "BaseURL"},
		"timeout":          {"m", Endpoint{BaseURL: local, Idle: -1}, cairn.ErrModelRequest, "IdleTimeout"},
		"no name":          {"", Endpoint{BaseURL: local}, cairn.ErrModelRequest, "name"},
	} {
		model := a.Model(c.model, c.e)
		_, err := Ask(t.Context(), model, Hello())
		e := cairn.AsError(err)
		bad := (&cairn.Agent{Name: "bot", Model: model}).Validate()
		if !errors.Is(bad, cairn.ErrInvalid) || !errors.Is(bad, e) || !strings.Contains(bad.Error(), `agent "bot": model: `+a.Name+`: `+c.field) {
			t.Errorf("%s: the agent is validated as %v", name, bad)
		}
		if e == nil || e.Code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.field) || e.Retryable() {
			t.Errorf("%s: %+v", name, e)
		}
		if e != nil && strings.Contains(e.Message, "secret") {
			t.Errorf("%s: the message contains a secret: %v", name, e)
		}
	}
	if err := a.Model("m", Endpoint{BaseURL: local}).(cairn.Validator).Validate(); err != nil {
		t.Errorf("a server of one's own needs no key: %v", err)
	}
}

func (a Adapter[Q, R]) environment(t *testing.T) {
	server := a.Server(a.Text("one", Wire{}), a.Text("two", Wire{}))
	t.Cleanup(server.Close)
	server.RequireKey("sk-env")
	t.Setenv(a.Variable+"_BASE_URL", server.BaseURL)
	t.Setenv(a.Variable+"_API_KEY", " sk-env\n")
	if _, err := Ask(t.Context(), a.Model("m", Endpoint{}), Hello()); err != nil {
		t.Fatal(err)
	}
	t.Setenv(a.Variable+"_API_KEY", "sk-wrong")
	if _, err := Ask(t.Context(), a.Model("m", Endpoint{APIKey: "sk-env"}), Hello()); err != nil {
		t.Errorf("the option's key does not win over the environment's: %v", err)
	}
}
