package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// answers stands for a server of sessions.
func answers() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"session_id": "s", "run_id": "r", "turn": 1}`)
	})
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\ndata: {\"sequence\":1,\"type\":\"text_delta\",\"run_id\":\"r\",\"text\":\"Hello.\"}\n\n")
		fmt.Fprint(w, "id: 2\ndata: {\"sequence\":2,\"type\":\"run_end\",\"run_id\":\"r\",\"status\":\"completed\"}\n\n")
	})
	return httptest.NewServer(mux)
}

func ExampleNew() {
	srv := answers()
	defer srv.Close()
	c, err := client.New(srv.URL, &client.Options{Token: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	run, err := c.Start(ctx, client.Turn{Agent: "support", Input: client.UserMessage{Text: "Hi."}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range c.Events(ctx, run.SessionID, &client.EventsOptions{RunID: run.RunID}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Type, ev.Text)
	}
	// Output:
	// text_delta Hello.
	// run_end
}

func ExampleNewAttachment() {
	file, err := client.NewAttachment(&cairn.File{Name: "note.txt", MediaType: "text/plain", Data: []byte("Hello.")})
	if err != nil {
		fmt.Println(err)
		return
	}
	turn := client.Turn{Agent: "support", Input: client.UserMessage{Text: "What does it say?", Files: []client.Attachment{file}}}
	fmt.Println(turn.Input.Files[0].URL)
	// Output: data:text/plain;base64,SGVsbG8u
}

func ExampleRemoteAgent() {
	c, err := client.New("https://agents.example.com", &client.Options{Token: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	lawyer := client.RemoteAgent(c, client.RemoteOptions{Name: "lawyer", Description: "Knows the law."})
	clerk := &cairn.Agent{Name: "clerk", Model: lawyer.Model, Tools: []cairn.Tool{cairn.SubAgent(lawyer)}}
	fmt.Println(clerk.Validate())
	// Output: <nil>
}
