package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/cairn-agents/cairn/console"
)

func ExampleNew() {
	api := http.NotFoundHandler() // the handler of server.New

	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle("/console/session", api) // the sign-in
	mux.Handle("/console/", http.StripPrefix("/console", console.New(nil)))

	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/console/inbox", nil))
	fmt.Println(rec.Code, rec.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
