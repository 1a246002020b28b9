package anthropictest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// result reports what is wrong with the content of a result: a text, or a list of blocks.
func (b *Block) result() error {
	if !bytes.HasPrefix(b.Content, []byte("[")) {
		if b.IsError && (len(b.Content) == 0 || string(b.Content) == `""`) {
			return fmt.Errorf("content cannot be empty if `is_error` is true")
		}
		return nil
	}
	var list []Block
	if err := json.Unmarshal(b.Content, &list); err != nil {
		return err
	}
	for i := range list {
		var err error
		switch kind := list[i].Type; {
		case b.IsError && kind != "text":
			err = fmt.Errorf(`all content must be type "text" if "is_error" is true`)
		case kind == "text" && strings.TrimSpace(list[i].Text) == "":
			err = fmt.Errorf("text content blocks must be non-empty")
		case kind == "image" || kind == "document":
			err = list[i].file()
		case kind != "text":
			err = fmt.Errorf("input tag %q found using 'type' does not match any of the expected tags", kind)
		}
		if err != nil {
			return fmt.Errorf("content.%d: %w", i, err)
		}
	}
	return nil
}

// file reports what is wrong with an image or a document.
func (b *Block) file() error {
	s := b.Source
	if s == nil {
		return fmt.Errorf("source: field required")
	}
	images := map[string]bool{"image/jpeg": true, "image/png": true, "image/gif": true, "image/webp": true}
	switch s.Type {
	case "base64":
		if _, err := base64.StdEncoding.DecodeString(s.Data); err != nil || s.Data == "" {
			return fmt.Errorf("source.base64: invalid base64 data")
		}
		if b.Type == "image" && !images[s.MediaType] || b.Type == "document" && s.MediaType != "application/pdf" {
			return fmt.Errorf("source.base64.media_type: %q is not supported", s.MediaType)
		}
	case "url":
		if !strings.HasPrefix(s.URL, "https://") {
			return fmt.Errorf("source.url: only HTTPS URLs are supported")
		}
	case "text":
		if b.Type != "document" || s.MediaType != "text/plain" || s.Data == "" {
			return fmt.Errorf("source.text: malformed")
		}
	default:
		return fmt.Errorf("source.type: unexpected %q", s.Type)
	}
	return nil
}
