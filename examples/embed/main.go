// Command embed adds an agent's chat to a site that has its own pages and login. It mounts only the server's routes
// that its page needs, below a path of the site. The other routes cannot be reached.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

var support = &cairn.Agent{Name: "support", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
	return scripted.Text("Welcome!")
})}

// logins maps the site's cookies to its users.
var logins sync.Map

// user returns the user of a request, from the same cookie as the rest of the site.
func user(r *http.Request) (*server.Principal, error) {
	cookie, err := r.Cookie("login")
	if err != nil {
		return nil, nil
	}
	name, ok := logins.Load(cookie.Value)
	if !ok {
		return nil, nil
	}
	return &server.Principal{User: name.(string), Roles: []server.Role{server.RoleUser}}, nil
}

func login(w http.ResponseWriter, r *http.Request) {
	cookie := rand.Text()
	logins.Store(cookie, r.FormValue("name")) // a real site asks for more than a name
	http.SetCookie(w, &http.Cookie{Name: "login", Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func routes(agents http.Handler) http.Handler {
	site := http.NewServeMux()
	site.HandleFunc("POST /login", login)
	site.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "The site's own page.") })
	for _, route := range []string{"POST /agents/chat", "GET /agents/chat/{id}", "GET /agents/chat/{id}/stream"} {
		site.Handle(route, http.StripPrefix("/agents", agents))
	}
	return site
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	st := must(sqlitestore.Open("embed.db", nil))
	defer st.Close()
	eng := must(engine.New(st, []*cairn.Agent{support}, nil))
	agents := must(server.New(eng, &server.Options{Authenticate: user}))
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println("http://" + listener.Addr().String())

	// No WriteTimeout, since streams take long.
	web := &http.Server{Handler: routes(agents), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	defer context.AfterFunc(ctx, agents.Drain)() // streams end first: clients reconnect to another process
	err := errors.Join(eng.Serve(ctx), web.Shutdown(context.Background()))
	if err != nil {
		log.Print(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
