package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// What a tool attaches follows its result, names the call, and is in the requests that follow. A refused file changes
// nothing, an attempt that is repeated leaves nothing behind, a failed one does, and a result with files is not cached.
func TestAttach(t *testing.T) {
	t.Parallel()
	png := func(data string) cairn.File {
		return cairn.File{Name: "a\x00.png", MediaType: "image/png", Data: []byte(data)}
	}
	runs, tries := 0, 0
	shot := cairn.Func("shot", "Takes a picture.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		runs++
		for _, bad := range [][]cairn.File{nil, {png("x"), {Data: []byte("x")}}, {{MediaType: "image/png"}}, {{MediaType: "image/png", Data: []byte("x"), URL: "https://x"}}} {
			if err := call.Attach(bad...); !errors.Is(err, cairn.ErrInvalid) || cairn.AsError(err).Field != "files" {
				return "", fmt.Errorf("%v attached: %v", bad, err)
			}
		}
		if err := call.Attach(png(string(make([]byte, 64<<20)))); !errors.Is(err, cairn.ErrTooLarge) {
			return "", fmt.Errorf("a file of 64 MiB attached: %v", err)
		}
		return "taken", call.Attach(png("one"), cairn.File{MediaType: "image/png", URL: "https://example.com/two.png"})
	}, cairn.Cache(cairn.CachePolicy{}))
	flaky := cairn.Func("flaky", "Takes a picture, in the end.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		if tries++; tries < 3 {
			return "", errors.Join(errors.New("blurred"), call.Attach(png(fmt.Sprint("try ", tries))))
		}
		return "taken", call.Attach(png("third"))
	}, cairn.Retry(cairn.RetryPolicy{First: time.Nanosecond, When: func(error) bool { return true }}))
	broken := cairn.Func("broken", "Fails.", func(_ context.Context, call *cairn.Call, _ struct{}) (string, error) {
		return "", errors.Join(call.Attach(png("evidence")), errors.New("out of film"))
	})
	var last []cairn.Message
	steps := []scripted.Step{scripted.Call("shot", struct{}{}), scripted.Call("shot", struct{}{}), scripted.Call("flaky", struct{}{}), scripted.Call("broken", struct{}{}), scripted.Text("done")}
	n := -1
	eng := open(t, memstore.New(nil), bot(scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		last = r.Messages
		n++
		return steps[n]
	}), shot, flaky, broken))
	turn(t, eng, "s", "go")
	if runs != 2 || tries != 3 {
		t.Errorf("the tools ran %d and %d times", runs, tries)
	}
	var got []string
	for i := range last {
		m := &last[i]
		if m.CallID == "" {
			continue
		}
		before := last[i-1].ToolResults()
		if len(before) != 1 || before[0].CallID != m.CallID || !m.Hidden || m.Role != cairn.RoleUser {
			t.Errorf("message %d is %+v after %+v", i, m, before)
		}
		for _, p := range m.Parts[1:] {
			if p.File.Name != "" && p.File.Name != "a\uFFFD.png" {
				t.Errorf("the file is called %q", p.File.Name)
			}
			got = append(got, string(bytes.Join([][]byte{p.File.Data, []byte(p.File.URL)}, nil)))
		}
	}
	if want := []string{"one", "https://example.com/two.png", "one", "https://example.com/two.png", "third", "evidence"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the model was sent %q, want %q", got, want)
	}
}
