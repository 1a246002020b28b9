package jwtauth_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New()}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(context.Background())
	auth, err := jwtauth.New(&jwtauth.Options{
		Issuer:     "https://id.example.com",
		Audience:   "support",
		JWKS:       "https://id.example.com/.well-known/jwks.json",
		RolesClaim: "realm_access.roles",
		Roles:      map[string]server.Role{"support-admin": server.RoleAdmin, "on-call": server.RoleOperator},
		Default:    []server.Role{server.RoleUser},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := server.New(eng, &server.Options{Authenticate: auth})
	fmt.Println(handler != nil, err)
	// Output: true <nil>
}
