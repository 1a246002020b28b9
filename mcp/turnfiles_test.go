package mcp_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func withFile(f cairn.File) scripted.Step {
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &f})
}

// A client gets the files of the reply that ends a turn, as far as they are not too large, after the text.
func TestFilesOfATurn(t *testing.T) {
	t.Parallel()
	png, wav, pdf := cairn.File{MediaType: "image/png", Data: []byte(drawing)}, cairn.File{MediaType: "audio/wav", Data: []byte("RIFF")}, cairn.File{Name: "a.pdf", MediaType: "application/pdf", Data: []byte("%PDF")}
	large := cairn.File{MediaType: "image/png", Data: make([]byte, 5<<20)}
	for name, test := range map[string]struct {
		replies []scripted.Step
		want    []sdk.Content
	}{
		"no files":      {[]scripted.Step{scripted.Text("done")}, nil},
		"one of each":   {[]scripted.Step{scripted.Reply(withFile(png), withFile(wav), scripted.Text("done"), withFile(pdf))}, []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: png.Data}, &sdk.AudioContent{MIMEType: "audio/wav", Data: wav.Data}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{MIMEType: "application/pdf", Blob: pdf.Data}}}},
		"an address":    {[]scripted.Step{scripted.Reply(scripted.Text("done"), withFile(cairn.File{Name: "a", MediaType: "image/png", URL: "https://example.com/a.png"}))}, []sdk.Content{&sdk.ResourceLink{URI: "https://example.com/a.png", Name: "a", MIMEType: "image/png"}}},
		"earlier reply": {[]scripted.Step{scripted.Reply(withFile(png), scripted.Call("look", none{})), scripted.Text("done")}, nil},
		"too large":     {[]scripted.Step{scripted.Reply(withFile(large), scripted.Text("done"), withFile(large), withFile(png))}, []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: large.Data}, &sdk.TextContent{Text: "File of type image/png with 5242880 bytes omitted: the files of the reply are too large."}, &sdk.ImageContent{MIMEType: "image/png", Data: png.Data}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := cairn.Func("look", "Looks.", func(_ context.Context, call *cairn.Call, _ none) (string, error) { return "seen", nil })
			eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "clerk", Model: scripted.New(test.replies...), Tools: []cairn.Tool{look}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { eng.Close(context.Background()) })
			res, err := visit(t, office(t, eng), "ada", nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "clerk", Arguments: map[string]any{"message": "go"}})
			if err != nil || res.IsError {
				t.Fatalf("the call came to %+v, %v", res, err)
			}
			out, _ := res.StructuredContent.(map[string]any)
			if first, ok := res.Content[0].(*sdk.TextContent); out["text"] != "done" || !ok || first.Text != fmt.Sprintf(`{"session":%q,"text":"done"}`, out["session"]) {
				t.Errorf("the call came to %v, and as text %+v", out, res.Content[0])
			}
			files := res.Content[1:]
			for _, f := range files {
				if r, ok := f.(*sdk.EmbeddedResource); ok {
					if !strings.HasPrefix(r.Resource.URI, "cairn:"+out["session"].(string)+"/") {
						t.Errorf("the file is %s", r.Resource.URI)
					}
					r.Resource.URI = ""
				}
			}
			if len(files) != len(test.want) || len(files) > 0 && !reflect.DeepEqual(files, test.want) {
				t.Errorf("the files are %.200v", files)
			}
		})
	}
}
