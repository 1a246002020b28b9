package serve

import (
	"net/http"
	"reflect"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
)

// known authenticates the users of a file: by the file's tokens, and by tokens that an issuer signs.
type known struct {
	tokens server.Authenticator
	jwt    config.JWT
	signed server.Authenticator // nil if the file names no issuer
}

// admit returns the authentication of a file. It keeps the keys of an issuer that before has as well. before may be
// nil.
func admit(a *config.Auth, before *known) (*known, error) {
	principals := map[string]*server.Principal{}
	for _, t := range a.Tokens {
		p := &server.Principal{User: t.User, Tenant: t.Tenant}
		for _, role := range t.Roles {
			p.Roles = append(p.Roles, server.Role(role))
		}
		principals[t.Token] = p
	}
	k := &known{tokens: server.Tokens(principals), jwt: a.JWT}
	switch {
	case !a.JWT.Given():
	case before != nil && reflect.DeepEqual(before.jwt, a.JWT):
		k.signed = before.signed
	default:
		var err error
		if k.signed, err = jwtauth.New(a.JWT.Options()); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// principal returns who makes a request; nil if that is unknown.
func (k *known) principal(r *http.Request) (*server.Principal, error) {
	if p, err := k.tokens(r); p != nil || err != nil || k.signed == nil {
		return p, err
	}
	return k.signed(r)
}
