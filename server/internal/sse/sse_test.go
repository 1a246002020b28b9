package sse

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

func list(frames []string, end error) func(context.Context) iter.Seq2[[]byte, error] {
	return func(context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, f := range frames {
				if !yield([]byte(f), nil) {
					return
				}
			}
			if end != nil {
				yield(nil, end)
			}
		}
	}
}

// serve writes a stream to a client. It returns what the client received, and what Write returned.
func serve(t *testing.T, frames func(context.Context) iter.Seq2[[]byte, error], o Options, read func(io.Reader) ([]byte, error)) (string, error, error) {
	t.Helper()
	result := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := Write(r.Context(), w, r, frames, o)
		result <- err
		if err != nil {
			Cut(w, r)
		}
	}))
	defer srv.Close()
	res, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := read(res.Body)
	return string(data), err, <-result
}

func TestWriteToTheEnd(t *testing.T) {
	got, read, wrote := serve(t, list([]string{"data: a\n\n", "data: b\n\n"}, nil), Options{}, io.ReadAll)
	if got != "data: a\n\ndata: b\n\n" || read != nil || wrote != nil {
		t.Errorf("got %q, %v, %v", got, read, wrote)
	}
}

// A stream that fails is broken off, so that its client does not take it for complete.
func TestFailureCuts(t *testing.T) {
	why := errors.New("the log is away")
	got, read, wrote := serve(t, list([]string{"data: a\n\n"}, why), Options{}, io.ReadAll)
	if got != "data: a\n\n" || read == nil || !errors.Is(wrote, ErrCut) || !errors.Is(wrote, why) {
		t.Errorf("got %q, %v, %v", got, read, wrote)
	}
}

// Over HTTP/1.0, where a response ends with its connection, a stream that is cut ends with a reset. That of a whole one
// is closed.
func TestCutOverHTTP10IsAReset(t *testing.T) {
	for name, test := range map[string]struct {
		end    error
		known  bool // the connection is known to Write
		hidden bool // it cannot be taken from the server
		reset  bool
	}{
		"whole": {nil, true, false, false}, "cut": {errors.New("away"), false, false, true}, "cut, known": {errors.New("away"), true, false, true},
		"cut, hidden": {errors.New("away"), true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.hidden {
					w = struct {
						http.ResponseWriter
						http.Flusher
					}{w, w.(http.Flusher)}
				}
				if Write(r.Context(), w, r, list([]string{"data: a\n\n"}, test.end), Options{}) != nil {
					Cut(w, r)
				}
			}))
			if test.known {
				srv.Config.ConnContext = WithConn
			}
			srv.Start()
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(c); errors.Is(err, syscall.ECONNRESET) != test.reset {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// A client that does not read is disconnected, and its frames are no longer read.
func TestStalledClient(t *testing.T) {
	ended := make(chan struct{})
	endless := func(context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			defer close(ended)
			frame := []byte("data: " + strings.Repeat("x", 1<<16) + "\n\n")
			for yield(frame, nil) {
			}
		}
	}
	_, _, wrote := serve(t, endless, Options{WriteTimeout: 50 * time.Millisecond}, func(io.Reader) ([]byte, error) {
		<-ended
		return nil, nil
	})
	if !errors.Is(wrote, ErrCut) {
		t.Errorf("got %v", wrote)
	}
}

func TestAppend(t *testing.T) {
	if got := string(Append(nil, "x.7", "run_end", []byte("{}"))); got != "id: x.7\nevent: run_end\ndata: {}\n\n" {
		t.Errorf("got %q", got)
	}
	if got := string(Append([]byte(":\n\n"), "", "", []byte("[DONE]"))); got != ":\n\ndata: [DONE]\n\n" {
		t.Errorf("got %q", got)
	}
}
