package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/metrics"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New()}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	m := metrics.New()
	handler, err := server.New(eng, &server.Options{Observer: m, AllowUnauthenticated: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("GET /metrics", m)

	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/healthz", nil))
	scrape := httptest.NewRecorder()
	mux.ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.SplitSeq(scrape.Body.String(), "\n") {
		if strings.HasPrefix(line, "cairn_server_requests_total") {
			fmt.Println(line)
		}
	}
	// Output: cairn_server_requests_total{route="GET /healthz",status="200"} 1
}
