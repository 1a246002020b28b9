package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/redisstore"
)

// serverVariable, if set, makes this command Cairn's server.
const serverVariable = "CAIRN_BENCH_CHAT_SERVER"

// words is the number of words in an answer.
const words = 100

// serve serves a chat on the port PORT, with sessions on Redis at REDIS_URL, until the process is killed.
func serve(ctx context.Context) error {
	st, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	model := scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		answer := scripted.Text(strings.Repeat("word ", words))
		if r.Messages[len(r.Messages)-1].Text() == "slowly" {
			answer = answer.Pace(50 * time.Millisecond)
		}
		return answer
	})
	eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: model}}, nil)
	if err != nil {
		return err
	}
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, StreamsPerUser: -1, RequestsPerMinute: -1})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { _ = http.Serve(listener, h) }()
	return eng.Serve(ctx)
}
