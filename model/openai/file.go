package openai

import (
	"cmp"
	"mime"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// images are the types of images that the API accepts. The last one is what programs give for an address whose type
// they do not know.
var images = []string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "image/*"}

// file returns a file in a form that the model can read.
func file(f *cairn.File) content {
	media, _, err := mime.ParseMediaType(f.MediaType)
	if err != nil {
		media = f.MediaType
	}
	switch {
	case provider.Readable(media, f):
		return content{Type: "input_text", Text: cmp.Or(f.Name, "file") + ":\n\n" + string(f.Data)}
	case strings.HasPrefix(media, "image/") && !slices.Contains(images, media):
		return content{Type: "input_text", Text: provider.Described(f)} // the API would reject it, and all later requests with it
	case strings.HasPrefix(media, "image/"):
		address := f.URL
		if address == "" {
			address = f.DataURL()
		}
		return content{Type: "input_image", ImageURL: address, Detail: "auto"}
	case f.URL != "" && len(f.Data) == 0:
		return content{Type: "input_file", FileURL: f.URL}
	case media == "application/pdf":
		return content{Type: "input_file", Filename: cmp.Or(f.Name, "file.pdf"), FileData: f.DataURL()}
	}
	return content{Type: "input_file", Filename: cmp.Or(f.Name, "file"), FileData: f.DataURL()}
}
