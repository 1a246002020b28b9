package oidcauth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
	"github.com/cairn-agents/cairn/server/oidcauth"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Users of the console sign in at the provider of their organisation. Programs have tokens.
func ExampleNew() {
	agent := &cairn.Agent{Name: "support", Model: scripted.New()}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	defer eng.Close(context.Background())
	api, _ := server.New(eng, &server.Options{SignIn: &server.SignIn{}, Authenticate: server.Tokens(nil)})

	signIn, err := oidcauth.New(api, &oidcauth.Options{
		Issuer:       "https://id.example.com",
		ClientID:     "cairn",
		ClientSecret: "from the provider",
		RedirectURL:  "https://cairn.example.com/console/oidc/callback",
		Claims: jwtauth.Options{UserClaim: "email", RolesClaim: "groups",
			Roles: map[string]server.Role{"support-lead": server.RoleAdmin, "on-call": server.RoleOperator}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle("/console/oidc/", http.StripPrefix("/console/oidc", signIn))

	rec := httptest.NewRecorder() // an answer to a sign-in that this browser has not begun
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/console/oidc/callback?code=c&state=s", nil))
	fmt.Println(rec.Code, rec.Header().Get("Location"))
	// Output: 303 ../?sign_in=failed
}
