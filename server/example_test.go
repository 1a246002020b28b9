package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("How can I help?"))}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(context.Background())
	handler, err := server.New(eng, &server.Options{
		Authenticate: server.Tokens(map[string]*server.Principal{
			"secret": {User: "ann", Roles: []server.Role{server.RoleUser}},
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(handler) // or http.ListenAndServe
	defer srv.Close()

	req, _ := http.NewRequest("POST", srv.URL+"/start", strings.NewReader(`{"agent": "support", "input": {"text": "Hello."}}`))
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.Status)
	// Output: 202 Accepted
}
