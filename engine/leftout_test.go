package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// picky is a model that refuses files whose name begins with "bad".
type picky struct {
	cairn.Model
	name     string
	refusal  func(files []*cairn.File) error // nil for the file of an image that is too large
	refused  int
	requests []*cairn.Request
}

func newPicky(name string) *picky {
	p := &picky{name: name}
	p.Model = scripted.Func(p.play)
	return p
}

func (p *picky) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "picky", Name: p.name} }

func (p *picky) play(_ context.Context, req *cairn.Request) scripted.Step {
	p.requests = append(p.requests, req)
	refusal := p.refusal
	if refusal == nil {
		refusal = func(files []*cairn.File) error {
			for _, f := range files {
				if strings.HasPrefix(f.Name, "bad") {
					return cairn.Errorf(cairn.ErrFileRefused, "image exceeds 5 MB maximum")
				}
			}
			return nil
		}
	}
	if err := refusal(filesOf(req)); err != nil {
		p.refused++
		return scripted.Fail(err)
	}
	return scripted.Text("Seen.")
}

// last returns the text and the names of the files of the latest request.
func (p *picky) last() (text, files string) {
	req := p.requests[len(p.requests)-1]
	for i := range req.Messages {
		text += req.Messages[i].Text() + "\n"
	}
	for _, f := range filesOf(req) {
		files += f.Name + " "
	}
	return text, strings.TrimSpace(files)
}

func filesOf(req *cairn.Request) (list []*cairn.File) {
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.File != nil {
				list = append(list, p.File)
			}
		}
	}
	return list
}

func image(name string) cairn.Part {
	return cairn.FilePart(cairn.File{Name: name, MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")})
}

// show sends a text with files, and returns the outcome.
func show(t *testing.T, eng *engine.Engine, text string, files ...cairn.Part) *cairn.Result {
	t.Helper()
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Messages(cairn.User(append([]cairn.Part{cairn.TextPart(text)}, files...)...)))
	if err != nil {
		t.Fatal(err)
	}
	return wait(t, run)
}

// A file that the provider refuses is left out of that turn and of later ones, in any process, with one failed request.
func TestRefusedFileIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, durability := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
		st := tapOn(nil)
		model := newPicky("one")
		agent := bot(model)
		agent.Durability = durability
		eng := open(t, st, agent)
		wantStatus(t, show(t, eng, "Look.", image("good")), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, show(t, eng, "And here.", image("bad")), cairn.RunCompleted, cairn.ReasonReply)
		text, files := model.last()
		if files != "good" || !strings.Contains(text, `The file "image/png bad" of this message was left out`) || !strings.Contains(text, "image exceeds 5 MB maximum") {
			t.Errorf("the model was sent the files %q and %s", files, text)
		}
		other := open(t, st, agent, named("p2."))
		for range 2 {
			wantStatus(t, show(t, other, "Only text."), cairn.RunCompleted, cairn.ReasonReply)
		}
		if again, files := model.last(); model.refused != 1 || files != "good" || !strings.HasPrefix(again, text) {
			t.Errorf("%d requests were refused; the model was sent the files %q and %s", model.refused, files, again)
		}
		messages, err := other.Messages(t.Context(), "s", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f := messages[2].Parts[1].File; f == nil || f.Name != "bad" {
			t.Error("the transcript lost the file")
		}
		note := messages[3]
		if note.LeftOut == nil || !note.Hidden || note.LeftOut.Model != "picky:one" || len(note.LeftOut.Files) != 1 || note.LeftOut.Files[0] != (cairn.FilePlace{Message: 2, Part: 1}) {
			t.Errorf("the transcript has %+v", note)
		}
		if note.Public().LeftOut != nil {
			t.Error("a user may read what was left out")
		}
	}
}

// The log says which files are left out.
func TestLeftOutFilesAreOnTheLog(t *testing.T) {
	t.Parallel()
	eng := open(t, tapOn(nil), bot(newPicky("one")))
	show(t, eng, "Look.", image("bad"))
	found := 0
	for ev, err := range eng.Events(t.Context(), "s", cairn.Cursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == cairn.EventContextChanged {
			found++
			var places []cairn.FilePlace
			if err := json.Unmarshal(ev.Data, &places); err != nil || ev.Name != "files" || len(places) != 1 || places[0] != (cairn.FilePlace{Part: 1}) || !strings.Contains(ev.Text, "5 MB") || ev.Index != 1 {
				t.Errorf("%+v, %v", ev, err)
			}
			if p := ev.Public(); p.Text != "" || p.Data != nil {
				t.Errorf("the public event is %+v", p)
			}
		}
		if ev.Type == cairn.EventRunEnd {
			break
		}
	}
	if found != 1 {
		t.Errorf("%d events", found)
	}
}

// Which files are left out depends on what the provider says and has accepted before.
func TestWhichFilesAreLeftOut(t *testing.T) {
	t.Parallel()
	url := func(name string) cairn.Part {
		return cairn.FilePart(cairn.File{Name: name, MediaType: "image/png", URL: "https://example.com/" + name})
	}
	for name, test := range map[string]struct {
		refuses    func(files []*cairn.File) string
		first, now []cairn.Part
		left       string // files that the model is still sent
		refused    int
	}{
		"the new ones": {func(f []*cairn.File) string { return map[bool]string{true: "Could not process image"}[len(f) > 1] },
			[]cairn.Part{image("a")}, []cairn.Part{image("b"), image("c")}, "a", 1},
		"the one whose address is named": {func(f []*cairn.File) string {
			for _, f := range f {
				if f.Name == "b" {
					return "Error while downloading https://example.com/b."
				}
			}
			return ""
		}, []cairn.Part{url("a")}, []cairn.Part{url("b"), url("c")}, "a c", 1},
		"all, if the old ones are refused now": {func(f []*cairn.File) string {
			return map[bool]string{true: "This model does not support image input"}[len(f) > 0]
		},
			nil, []cairn.Part{image("b")}, "", 1},
	} {
		model := newPicky("one")
		says := ""
		model.refusal = func(files []*cairn.File) error {
			if says = test.refuses(files); says != "" {
				return cairn.Errorf(cairn.ErrFileRefused, "%s", says)
			}
			return nil
		}
		eng := open(t, tapOn(nil), bot(model))
		if test.first != nil {
			wantStatus(t, show(t, eng, "First.", test.first...), cairn.RunCompleted, cairn.ReasonReply)
		}
		wantStatus(t, show(t, eng, "Now.", test.now...), cairn.RunCompleted, cairn.ReasonReply)
		wantStatus(t, show(t, eng, "Later."), cairn.RunCompleted, cairn.ReasonReply)
		if _, files := model.last(); files != test.left || model.refused != test.refused {
			t.Errorf("%s: the model is sent %q after %d refusals, want %q after %d", name, files, model.refused, test.left, test.refused)
		}
	}
}

// Files that a model accepted earlier are left out too, if the provider refuses the conversation without the new ones:
// limits can depend on their number, and the model behind an address can change.
func TestFilesThatWereAcceptedBefore(t *testing.T) {
	t.Parallel()
	model := newPicky("one")
	strict := false
	model.refusal = func(files []*cairn.File) error {
		if strict && len(files) > 0 {
			return cairn.Errorf(cairn.ErrModelRequest, "messages.0: image dimensions exceed max allowed size for many-image requests")
		}
		return nil
	}
	eng := open(t, tapOn(nil), bot(model))
	wantStatus(t, show(t, eng, "First.", image("a")), cairn.RunCompleted, cairn.ReasonReply)
	strict = true
	wantStatus(t, show(t, eng, "Now.", image("b")), cairn.RunCompleted, cairn.ReasonReply)
	wantStatus(t, show(t, eng, "Later."), cairn.RunCompleted, cairn.ReasonReply)
	if model.refused != 2 {
		t.Errorf("%d requests were refused, want 2", model.refused)
	}
}

// Another model is sent the file.
func TestFileIsLeftOutForOneModel(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	one, two := newPicky("one"), newPicky("two")
	two.refusal = func([]*cairn.File) error { return nil }
	eng := open(t, st, bot(one))
	show(t, eng, "Look.", image("bad"))
	wantStatus(t, show(t, open(t, st, bot(two), named("p2.")), "And you?"), cairn.RunCompleted, cairn.ReasonReply)
	if text, files := two.last(); files != "bad" || strings.Contains(text, "left out") {
		t.Errorf("the other model was sent %q and %s", files, text)
	}
	wantStatus(t, show(t, open(t, st, bot(one), named("p3.")), "And now?"), cairn.RunCompleted, cairn.ReasonReply)
	if one.refused != 1 {
		t.Errorf("%d requests were refused", one.refused)
	}
}

// A conversation that stays too long after a summary is sent without its files.
func TestFileThatIsLargerThanTheWindow(t *testing.T) {
	t.Parallel()
	model := newPicky("one")
	model.refusal = func(files []*cairn.File) error {
		if len(files) > 0 {
			return cairn.Errorf(cairn.ErrContextLength, "request_too_large")
		}
		return nil
	}
	eng := open(t, tapOn(nil), bot(model))
	wantStatus(t, show(t, eng, "Look.", image("a")), cairn.RunCompleted, cairn.ReasonReply)
	wantStatus(t, show(t, eng, "Later."), cairn.RunCompleted, cairn.ReasonReply)
	if model.refused > 2 {
		t.Errorf("%d requests were refused", model.refused)
	}
}

// An error that is not about files fails the turn, and so does a refusal in a conversation without files.
func TestOtherErrorsLeaveFilesIn(t *testing.T) {
	t.Parallel()
	for says, code := range map[string]cairn.Code{"tools.0: bad schema": cairn.ErrModelRequest, "no credit": cairn.ErrAuth} {
		model := newPicky("one")
		model.refusal = func([]*cairn.File) error { return cairn.Errorf(code, "%s", says) }
		eng := open(t, tapOn(nil), bot(model))
		if res := show(t, eng, "Look.", image("a")); res.Status != cairn.RunFailed || res.Error.Code != code || model.refused != 1 {
			t.Errorf("%s: %s after %d requests", says, res.Status, model.refused)
		}
	}
	model := newPicky("one")
	model.refusal = func([]*cairn.File) error { return cairn.Errorf(cairn.ErrFileRefused, "Could not process image") }
	if res := show(t, open(t, tapOn(nil), bot(model)), "Only text."); res.Status != cairn.RunFailed || res.Error.Code != cairn.ErrFileRefused || model.refused != 1 {
		t.Errorf("without files: %s after %d requests", res.Status, model.refused)
	}
}
