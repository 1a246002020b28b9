// Command sse serves an agent over HTTP by hand. A page sends messages, follows the session's events, and may stop the
// run. When its connection breaks, the page reconnects by itself and names the last event that it has seen.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/memstore"
)

func main() {
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "poet", Model: model}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Write to the poet:   curl -d text=Hello http://127.0.0.1:8080/s1/say")
	fmt.Println("Follow the session:  curl -N http://127.0.0.1:8080/s1/events")
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", routes(eng)))
}

func routes(eng *engine.Engine) http.Handler {
	mux := http.NewServeMux()
	handle := func(route string, do func(w http.ResponseWriter, r *http.Request, session string) error) {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r, r.PathValue("session")); err != nil {
				http.Error(w, err.Error(), cairn.AsError(err).Code.HTTPStatus())
			}
		})
	}
	handle("POST /{session}/say", func(_ http.ResponseWriter, r *http.Request, session string) error {
		_, err := eng.Execute(r.Context(), session, "poet", cairn.Text(r.FormValue("text")))
		return err // the run does not end with the request
	})
	handle("POST /{session}/stop", func(_ http.ResponseWriter, r *http.Request, session string) error {
		return eng.Interrupt(r.Context(), session, "the user pressed stop")
	})
	handle("GET /{session}/events", func(w http.ResponseWriter, r *http.Request, session string) error {
		after, err := cairn.ParseCursor(cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("after")))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/event-stream")
		begun := false
		for ev, err := range eng.Events(r.Context(), session, after) {
			if err != nil && begun {
				panic(http.ErrAbortHandler) // a stream that just ended would look complete
			} else if err != nil {
				return err
			}
			begun = true
			data, _ := json.Marshal(ev.Public()) // the view for users
			fmt.Fprintf(w, "id: %s\nevent: %s\ndata: %s\n\n", ev.Cursor(), ev.Type, data)
			_ = http.NewResponseController(w).Flush()
		}
		return nil
	})
	return mux
}
