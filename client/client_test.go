package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/internal/testclock"
)

const token = "a-token-that-nobody-may-see"

func open(t *testing.T, h http.HandlerFunc, change func(*client.Options)) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o := &client.Options{Token: token, Patience: 300 * time.Millisecond}
	if change != nil {
		change(o)
	}
	c, err := client.New(srv.URL+"/api/", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "host", "ftp://host", "http://", "http://u:p@host", "http://host?q=1", "http://host#f", "http://ho st"} {
		if _, err := client.New(address, nil); !errors.Is(err, cairn.ErrInvalid) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, o := range []client.Options{{Timeout: -1}, {MaxBody: -1}, {Patience: -1}, {Token: "a\nb"}, {Tenant: "a::b"}, {Tenant: "*"}, {HTTP: &http.Client{Timeout: 1}}} {
		if _, err := client.New("http://host", &o); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// An id that the path of a request would lose is refused: the request would be for something else.
func TestIDsThatPathsLoseAreRefused(t *testing.T) {
	c := open(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request for %s", r.URL.EscapedPath()) }, nil)
	for _, id := range []string{"", ".", ".."} {
		if err := c.Delete(t.Context(), id); !errors.Is(err, cairn.ErrInvalid) || cairn.AsError(err).Field != "id" {
			t.Errorf("Delete of %q: %v", id, err)
		}
		if _, err := c.Snapshot(t.Context(), id); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("Snapshot of %q: %v", id, err)
		}
	}
}

func TestRequestsCarryTheTokenAndEscapeIDs(t *testing.T) {
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("X-Tenant") != "7" {
			t.Errorf("headers %v", r.Header)
		}
		if r.URL.EscapedPath() != "/api/sessions/a%2Fb%3Fc" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		fmt.Fprint(w, `{"id": "a/b?c"}`)
	}, func(o *client.Options) { o.Header = http.Header{"X-Tenant": {"7"}} })
	if row, err := c.Session(t.Context(), "a/b?c"); err != nil || row.ID != "a/b?c" {
		t.Errorf("%+v, %v", row, err)
	}
}

func TestRequestsCarryTheTenant(t *testing.T) {
	var sent []string
	h := func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, fmt.Sprint(r.Header["Cairn-Tenant"]))
		fmt.Fprint(w, `{"id": "s", "tenant": "acme"}`)
	}
	for _, tenant := range []string{"acme", ""} {
		c := open(t, h, func(o *client.Options) { o.Tenant = tenant })
		if row, err := c.Session(t.Context(), "s"); err != nil || row.Tenant != "acme" {
			t.Errorf("%+v, %v", row, err)
		}
	}
	if !slices.Equal(sent, []string{"[acme]", "[]"}) {
		t.Errorf("tenants sent: %v", sent)
	}
}

// Errors of a server have the codes of the one table, even if a proxy stands between.
func TestErrorsAreCairnErrors(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		code   cairn.Code
	}{
		{409, `{"code":"queue_full","detail":"it is full"}`, cairn.ErrQueueFull},
		{409, `{"code":"waiting","detail":"it waits","calls":[{"id":"c1","kind":"approval"}]}`, cairn.ErrWaiting},
		{400, `{"code":"invalid_argument","detail":"bad","field":"agent"}`, cairn.ErrInvalid},
		{401, `{"code":"unauthorized","detail":"no"}`, cairn.ErrAuth},
		{403, `{"code":"cross_origin","detail":"no"}`, cairn.ErrAuth},
		{429, `{"code":"too_many_requests","detail":"slow"}`, cairn.ErrRateLimited},
		{429, `{"code":"too_many_streams","detail":"slow"}`, cairn.ErrRateLimited},
		{429, `{"code":"too_many_runs","detail":"slow"}`, cairn.ErrRateLimited},
		{503, `{"code":"closed","detail":"stopping"}`, cairn.ErrClosed},
		{401, `<html>no</html>`, cairn.ErrAuth}, {403, ``, cairn.ErrAuth}, {404, ``, cairn.ErrNotFound}, {410, `{}`, cairn.ErrDeleted},
		{413, ``, cairn.ErrTooLarge}, {429, ``, cairn.ErrRateLimited}, {502, `bad gateway`, cairn.ErrUnavailable}, {504, ``, cairn.ErrUnavailable},
		{500, ``, cairn.ErrInternal}, {418, ``, cairn.ErrInvalid},
		{200, `not JSON`, cairn.ErrInternal},
	} {
		c := open(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}, nil)
		_, err := c.Start(t.Context(), client.Turn{Agent: "a", Input: client.UserMessage{Text: "hi"}})
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != test.code || test.status >= 400 && e.RetryAfter != cairn.Duration(7*time.Second) {
			t.Errorf("%d %q: %#v", test.status, test.body, err)
			continue
		}
		if strings.Contains(fmt.Sprintf("%v %#v", err, err), token) {
			t.Errorf("%d: the token is in the error", test.status)
		}
		if test.code == cairn.ErrWaiting && (len(e.Calls) != 1 || e.Calls[0].ID != "c1") || strings.Contains(test.body, "field") && e.Field != "agent" {
			t.Errorf("%d: %+v", test.status, e)
		}
	}
}

func TestLimitsAndTimes(t *testing.T) {
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 2000)+"{}") },
		func(o *client.Options) { o.MaxBody = 1000 })
	if _, err := c.Status(t.Context(), "s"); !errors.Is(err, cairn.ErrTooLarge) {
		t.Errorf("a large answer: %v", err)
	}
	hang := make(chan struct{})
	c = open(t, func(http.ResponseWriter, *http.Request) { <-hang }, func(o *client.Options) { o.Timeout = 20 * time.Millisecond })
	t.Cleanup(func() { close(hang) })
	if _, err := c.Status(t.Context(), "s"); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("no answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.Submit(t.Context(), "s", cairn.Submission{}); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("an empty submission: %v", err)
	}
	gone, err := client.New("http://127.0.0.1:1", &client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gone.Status(t.Context(), "s")
	if outer := (*url.Error)(nil); !errors.Is(err, cairn.ErrUnavailable) || errors.As(err, &outer) {
		t.Errorf("nobody there: %v", err)
	}
}

// A stream that breaks off, by an abort, within a frame or because the server is away, continues after its last
// event.
func TestEventsReconnect(t *testing.T) {
	n := 0
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		frame := func(seq int, kind string) string {
			return fmt.Sprintf("id: inc.%d\r\nevent: %s\r\ndata: {\"sequence\":%d,\r\ndata: \"type\":\"%s\",\"run_id\":\"r\"}\r\n\r\n", seq, kind, seq, kind)
		}
		if want := map[int]string{1: "", 2: "inc.1", 3: "inc.1", 4: "inc.2"}[n]; r.Header.Get("Last-Event-ID") != want || r.FormValue("run_id") != "r" {
			t.Errorf("request %d continues behind %q, want %q", n, r.Header.Get("Last-Event-ID"), want)
		}
		switch n {
		case 1:
			fmt.Fprint(w, ": hello\n\n"+frame(1, "run_start")+"id: inc.2\ndata: {\"seq")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			fmt.Fprint(w, frame(2, "text_delta"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			fmt.Fprint(w, frame(3, "run_end"))
		}
	}, nil)
	var got []string
	for ev, err := range c.Events(t.Context(), "s", &client.EventsOptions{RunID: "r"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(ev.Type, " ", ev.Cursor()))
	}
	if s := strings.Join(got, ", "); s != "run_start inc.1, text_delta inc.2, run_end inc.3" {
		t.Error(s)
	}
}

func TestEventsEnd(t *testing.T) {
	collect := func(c *client.Client) (n int, last error) {
		for _, err := range c.Events(t.Context(), "s", nil) {
			if n, last = n+1, err; err == nil && n == 3 {
				break
			}
		}
		return n, last
	}
	for name, test := range map[string]struct {
		h    http.HandlerFunc
		want error
	}{
		"trimmed": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(410)
			fmt.Fprint(w, `{"code":"trimmed","detail":"gone"}`)
		}, cairn.ErrTrimmed},
		"away":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cairn.ErrUnavailable},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "id: 1\ndata: x\n\n") }, &cairn.Error{Code: cairn.ErrInternal}},
		"no id":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "id: x\ndata: {}\n\n") }, &cairn.Error{Code: cairn.ErrInternal}},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "data: "+strings.Repeat("x", 5000)) },
			cairn.ErrTooLarge},
	} {
		c := open(t, test.h, func(o *client.Options) { o.MaxBody = 4000 })
		if n, err := collect(c); n != 1 || !errors.Is(err, test.want) {
			t.Errorf("%s: %d events, %v", name, n, err)
		}
	}
	c := open(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, nil)
	if n, err := collect(c); n != 0 || err != nil {
		t.Errorf("nothing to read: %d, %v", n, err)
	}
	c = open(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := 1; i < 10; i++ {
			fmt.Fprintf(w, "id: %d\ndata: {\"sequence\":%d}\n\n", i, i)
		}
	}, nil)
	if n, err := collect(c); n != 3 || err != nil {
		t.Errorf("left: %d, %v", n, err)
	}
}

// A response that ends without the event that ends the stream is a broken connection: a proxy has lost the server
// behind it. The client reads on after its last event, whatever types it asked for.
func TestEventsContinueAfterAnEndWithoutItsEvent(t *testing.T) {
	for name, test := range map[string]struct {
		opts client.EventsOptions
		end  string // the event that ends the stream
		want string
	}{
		"of a run":          {client.EventsOptions{RunID: "r"}, `"type":"run_end","run_id":"r"`, "run_start text_delta run_end run_end"},
		"of a session":      {client.EventsOptions{}, `"type":"session_deleted"`, "run_start text_delta run_end session_deleted"},
		"of some types":     {client.EventsOptions{RunID: "r", Types: []cairn.EventType{cairn.EventTextDelta}}, `"type":"run_end","run_id":"r"`, "text_delta"},
		"of other sessions": {client.EventsOptions{Types: []cairn.EventType{cairn.EventTextDelta}}, `"type":"session_deleted"`, "text_delta"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			c := open(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				frame := func(seq int, fields string) {
					fmt.Fprintf(w, "id: inc.%d\ndata: {\"sequence\":%d,%s}\n\n", seq, seq, fields)
				}
				if want := []string{"", "inc.2", "inc.2", "inc.3"}[requests-1]; r.Header.Get("Last-Event-ID") != want {
					t.Errorf("request %d continues behind %q, want %q", requests, r.Header.Get("Last-Event-ID"), want)
				}
				if types := r.URL.Query()["type"]; len(types) > 0 && !slices.Equal(types, []string{"text_delta", "run_end", "session_deleted"}) {
					t.Errorf("it asks for %q", types)
				}
				switch requests {
				case 1:
					frame(1, `"type":"run_start","run_id":"r"`)
					frame(2, `"type":"text_delta","run_id":"r"`)
				case 3: // the end of a sub-agent's run
					frame(3, `"type":"run_end","run_id":"other"`)
				case 4:
					frame(4, test.end)
				}
			}, func(o *client.Options) { o.Patience = time.Minute })
			var got []string
			for ev, err := range c.Events(t.Context(), "s", &test.opts) {
				if err != nil {
					t.Fatal(err)
				}
				if len(test.opts.Types) == 0 || slices.Contains(test.opts.Types, ev.Type) {
					got = append(got, string(ev.Type))
				} else {
					t.Errorf("got %s, which was not asked for", ev.Type)
				}
			}
			if s := strings.Join(got, " "); s != test.want || requests != 4 {
				t.Errorf("%d requests got %s", requests, s)
			}
		})
	}
}

// A server whose streams end at once is given up as one that cannot be reached, at growing intervals.
func TestEventsGiveUpStreamsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c, err := client.New("http://server", &client.Options{HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			requests++
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, failed := range c.Events(t.Context(), "s", &client.EventsOptions{RunID: "r"}) {
			err = failed
		}
		if !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "missing last event") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute || requests > 40 {
			t.Errorf("%d requests in %s", requests, took)
		}
	})
}

// transport is a function that answers requests.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// quiet is a transport whose first response is a stream with one event and two comments, and then nothing more, as
// over a connection whose other end is gone.
type quiet struct {
	t     *testing.T
	asked []time.Time
}

func (q *quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	q.asked = append(q.asked, time.Now())
	if len(q.asked) > 1 {
		if r.Header.Get("Last-Event-ID") != "inc.1" {
			q.t.Errorf("it continues behind %q", r.Header.Get("Last-Event-ID"))
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("id: inc.2\nevent: session_deleted\ndata: {\"sequence\":2,\"type\":\"session_deleted\"}\n\n"))}, nil
	}
	out, in := io.Pipe()
	go func() {
		fmt.Fprint(in, "id: inc.1\nevent: run_start\ndata: {\"sequence\":1,\"type\":\"run_start\"}\n\n")
		for range 2 {
			testclock.Deaf(15 * time.Second)
			fmt.Fprint(in, ": keep-alive\n\n")
		}
		<-r.Context().Done()
		in.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Body: out}, nil
}

// A stream that is silent for longer than two comments take counts as broken, and is resumed elsewhere.
func TestSilentStreamIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{t: t}
		c, err := client.New("http://server", &client.Options{HTTP: &http.Client{Transport: q}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range c.Events(t.Context(), "s", nil) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 2 || len(q.asked) != 2 {
			t.Fatalf("%d events by %d requests", n, len(q.asked))
		}
		if after := q.asked[1].Sub(q.asked[0]); after < 60*time.Second || after > 90*time.Second {
			t.Errorf("it was resumed after %s", after)
		}
	})
}
