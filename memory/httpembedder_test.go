package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/memory"
)

func TestHTTPEmbedder(t *testing.T) {
	t.Parallel()
	answer, status := `{"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0]}]}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer key" ||
			body["model"] != "small" || body["dimensions"] != 2.0 || fmt.Sprint(body["input"]) != "[a b]" {
			t.Errorf("request %s with %v", r.URL, body)
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	e, err := memory.NewHTTPEmbedder(server.URL+"/v1/", "small", &memory.HTTPEmbedderOptions{Key: "key", Dimensions: 2, Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Embed(t.Context(), []string{"a", "b"})
	if err != nil || fmt.Sprint(list) != "[[1 0] [0 1]]" || e.Model() != "small/2" {
		t.Fatalf("vectors %v of %s, error %v", list, e.Model(), err)
	}
	for _, bad := range []string{`{`, `{}`, `{"data":[{"index":0,"embedding":[1]}]}`, `{"data":[{"index":2,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[1]}]}`} {
		if answer = bad; !errors.Is(second(e.Embed(t.Context(), []string{"a", "b"})), cairn.ErrModel) {
			t.Errorf("no ErrModel for %s", bad)
		}
	}
	answer, status = "over the limit \xff"+strings.Repeat("x", 1000), http.StatusTooManyRequests
	if err := second(e.Embed(t.Context(), []string{"a", "b"})); !errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "429: over the limit") || len(err.Error()) > 300 {
		t.Errorf("error %v", err)
	}
	server.Close()
	if err := second(e.Embed(t.Context(), []string{"a", "b"})); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	for _, c := range []struct{ address, model, field string }{{"localhost:1", "m", "url"}, {"ftp://x", "m", "url"}, {"http://x", "", "model"}} {
		_, err := memory.NewHTTPEmbedder(c.address, c.model, nil)
		if !errors.Is(err, cairn.ErrInvalid) || cairn.AsError(err).Field != c.field {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
