package modeltest

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

const (
	samplePause = "pause"
	sampleFail  = "fail "
)

// Sample returns a model that passes the suite, and the options for it. Use it to test a model that wraps another one:
//
//	func TestModel(t *testing.T) {
//		sample, opts := modeltest.Sample()
//		modeltest.Run(t, func(testing.TB) cairn.Model { return mymodel.Wrap(sample) }, opts)
//	}
//
// It repeats the user's last message, in pieces. Its reply depends on the request only.
func Sample() (cairn.Model, *Options) {
	return scripted.Func(sampleReply), &Options{
		Stall: func() *cairn.Request { return say(samplePause) },
		Fail:  func(code cairn.Code) *cairn.Request { return say(sampleFail + string(code)) },
	}
}

func sampleReply(_ context.Context, req *cairn.Request) scripted.Step {
	var said string
	for i := range req.Messages {
		if req.Messages[i].Role == cairn.RoleUser {
			said = req.Messages[i].Text()
		}
	}
	code, fails := strings.CutPrefix(said, sampleFail)
	switch {
	case fails:
		return scripted.Reply(scripted.Text("It "), scripted.Fail(cairn.Errorf(cairn.Code(code), "sample: the call fails, as requested")))
	case said == samplePause:
		return scripted.Reply(scripted.Text("It "), scripted.Pause(time.Hour))
	}
	reply := []scripted.Step{scripted.Thinking("The user wants it. ")}
	if tool := req.Choice.Tool; tool != "" {
		reply = append(reply, scripted.Call(tool, map[string]string{"words": said}))
	} else {
		reply = append(reply, scripted.Text("They said: "+said+" ."))
	}
	return scripted.Reply(reply...).Usage(int64(1+len(said)), 10)
}
