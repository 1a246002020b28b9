package released

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// long is how long sessions and records with a limited life last: the fixtures of a release are read for years.
const long = 100 * 365 * 24 * time.Hour

// input is the input of every tool.
type input struct {
	Text string `json:"text"`
}

// answer is the last text of every turn.
const answer = "done"

// reply plays the script that is the user's latest message, so that any build can complete a session: steps divided by
// semicolons, each with calls divided by ampersands, such as "note a; note b & pay 5". After the last step it says
// [answer].
func reply(_ context.Context, req *cairn.Request) scripted.Step {
	script, step := "", 0
	for i := range req.Messages {
		switch m := &req.Messages[i]; {
		case m.Role == cairn.RoleUser && !m.Hidden:
			script, step = m.Text(), 0
		case m.Role == cairn.RoleAssistant:
			step++
		}
	}
	steps := strings.Split(script, "; ")
	if step >= len(steps) || req.System == cairn.SummaryInstructions {
		return scripted.Text(answer).Usage(10, 1)
	}
	list := []scripted.Step{scripted.Thinking("step " + fmt.Sprint(step)), scripted.Text("I begin.")}
	for i, text := range strings.Split(steps[step], " & ") {
		name, argument, _ := strings.Cut(text, " ")
		var in any = input{argument}
		switch name {
		case "fail":
			return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "%s", argument))
		case "helper":
			in = map[string]string{"input": argument}
		case "consult":
			name, in = cairn.CompanionSpawn, map[string]string{"agent": "scout", "name": "scout-1", "message": argument}
		}
		list = append(list, scripted.Call(name, in).ID(fmt.Sprintf("%s-%d-%d", name, step, i)))
	}
	return scripted.Reply(list...).Usage(20, 5)
}

// cast is the agents that play, and what the tools need of the test.
type cast struct {
	// work is called by the tool of that name.
	work func(ctx context.Context, text string) error
}

func (c cast) agents() []*cairn.Agent {
	model := scripted.Func(reply)
	note := cairn.Func("note", "Takes a note.", func(_ context.Context, call *cairn.Call, in input) (string, error) {
		call.RecordUsage("notes", 1)
		if err := call.Emit("noted", in); err != nil {
			return "", err
		}
		return in.Text, call.Append([]string{"notes"}, in.Text)
	})
	pay := cairn.Func("pay", "Pays.", func(_ context.Context, call *cairn.Call, in input) (string, error) {
		return "paid " + in.Text, call.Set([]string{"paid"}, in.Text)
	}, cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, reviewer, "bob"))
	survey := cairn.Func("survey", "Asks the user.", func(ctx context.Context, call *cairn.Call, in input) (string, error) {
		began, err := cairn.Once(ctx, call, func(context.Context) (string, error) { return in.Text, nil })
		if err != nil {
			return "", err
		}
		var said string
		if err := call.Ask(ctx, "Is it so?", in, &said); err != nil {
			return "", err
		}
		return began + ": " + said, nil
	})
	scan := cairn.ClientTool[input, string]("scan", "Scans a page.")
	weather := cairn.Func("weather", "The weather in a city.", func(context.Context, *cairn.Call, input) (string, error) {
		return "sunny", nil
	}, cairn.Cache(cairn.CachePolicy{TTL: long}))
	work := cairn.Func("work", "Works.", func(ctx context.Context, _ *cairn.Call, in input) (string, error) {
		return "worked on " + in.Text, c.work(ctx, in.Text)
	}, cairn.Serial()) // so that each result is staged before the next call begins
	scout := &cairn.Agent{Name: "scout", Description: "Scouts.", Model: model, Tools: []cairn.Tool{note}}
	helper := &cairn.Agent{Name: "helper", Description: "Helps.", Model: model, Tools: []cairn.Tool{note, pay}}
	tools := []cairn.Tool{note, pay, survey, scan, weather, cairn.SubAgent(helper)}
	return []*cairn.Agent{
		{Name: "desk", Version: "1", Model: model, Tools: tools, Companions: []cairn.Companion{{Agent: scout}}},
		{Name: "clerk", Model: model, Tools: []cairn.Tool{note, work}, Durability: cairn.PerTool},
		{Name: "keeper", Model: model, Tools: []cairn.Tool{note}, TTL: long},
	}
}
