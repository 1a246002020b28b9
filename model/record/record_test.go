package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/record"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type order struct {
	ID string `json:"id"`
}

// talk runs two turns with a model in a new session, and returns the texts and the usage.
func talk(t *testing.T, session string, model cairn.Model) (texts []string, usage cairn.Usage) {
	t.Helper()
	look := cairn.Func("look", "Looks an order up.", func(_ context.Context, _ *cairn.Call, in order) (string, error) {
		return "order " + in.ID + " is on its way", nil
	})
	agent := &cairn.Agent{Name: "bot", Model: model, Tools: []cairn.Tool{look}, Settings: cairn.Settings{Options: map[string]any{"api_key": "sk-secret"}}}
	st := memstore.New(nil)
	defer st.Close()
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(context.Background())
	for _, said := range []string{"where is A-17?", "thanks"} {
		run, err := eng.Execute(t.Context(), session, "bot", cairn.Text(said))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		texts, usage = append(texts, fmt.Sprint(res.Status, " ", res.Text)), usage.Add(res.Usage)
	}
	return texts, usage
}

// A recorded conversation is played in another session, with other ids, exactly as recorded.
func TestRecordAndPlay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talk.jsonl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	model := scripted.New(
		scripted.Reply(scripted.Thinking("Hm."), scripted.Call("look", order{"A-17"})).Usage(10, 5),
		scripted.Text("It is on its way.").Usage(20, 6), scripted.Text("You are welcome."))
	texts, usage := talk(t, "recorded", record.New(model, out))
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("sk-secret")) || bytes.Contains(text, []byte("recorded")) {
		t.Errorf("the file has %s, %v", text, err)
	}
	player, err := record.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if player.Info() != model.Info() {
		t.Errorf("it is %v", player.Info())
	}
	again, spent := talk(t, "played", player)
	if !reflect.DeepEqual(again, texts) || !reflect.DeepEqual(spent, usage) {
		t.Errorf("played: %v, %+v, want %v, %+v", again, spent, texts, usage)
	}
}

// reply returns the text of a model's reply.
func reply(m cairn.Model, said string) (text string, err error) {
	for c, err := range m.Stream(context.Background(), &cairn.Request{Messages: []cairn.Message{cairn.User(cairn.TextPart(said))}}) {
		if err != nil {
			return text, err
		}
		text += c.Text
	}
	return text, nil
}

func TestReplies(t *testing.T) {
	var out bytes.Buffer
	r := record.New(scripted.New(scripted.Text("one"), scripted.Reply(scripted.Text("tw"), scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "busy")))), &out)
	reply(r, "hi")
	reply(r, "hi")
	p, err := record.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := reply(p, "hi"); text != "one" || err != nil {
		t.Errorf("first %q, %v", text, err)
	}
	for range 2 { // the last reply is repeated
		if text, err := reply(p, "hi"); text != "tw" || !errors.Is(err, &cairn.Error{Code: cairn.ErrOverloaded}) {
			t.Errorf("then %q, %v", text, err)
		}
	}
	if _, err := reply(p, "ho"); cairn.AsError(err).Code != cairn.ErrModelRequest || !strings.Contains(err.Error(), `"ho"`) {
		t.Errorf("what was not recorded: %v", err)
	}
	if _, err := record.Read(strings.NewReader("{}\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := record.Open("none"); err == nil {
		t.Error("there is no such file")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A reply that cannot be recorded fails, so that no recording lacks one.
func TestUnwritten(t *testing.T) {
	if _, err := reply(record.New(scripted.New(scripted.Text("one")), full{}), "hi"); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	reply(record.New(scripted.New(scripted.Text("one")), &out), "hi")
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := record.Read(bytes.NewReader(text))
		if err == nil {
			reply(p, "hi")
		}
	})
}
