package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/cairn-agents/cairn"
)

// Ask calls ask for a reply to a request, see [Endpoint.Force] and [Endpoint.Attached]. If the request is for the
// provider's own structured output, format returns the fields of the provider's request that demand it, and the reply's
// text becomes the call of [cairn.FinishTool] that the session has. If format returns nil, the provider cannot enforce
// the schema, and the request is made with the tool. If the server refuses structured output before the reply begins,
// ask is called again with the tool, and later requests are made that way at once.
func (e *Endpoint) Ask(req *cairn.Request, emit Emit, format func(schema json.RawMessage) map[string]any, ask func(*cairn.Request, Emit) error) error {
	ask = e.attaching(ask)
	at := slices.IndexFunc(req.Tools, func(t cairn.ToolSpec) bool { return t.Name == cairn.FinishTool })
	if !req.NativeOutput || at < 0 {
		return e.Force(req, emit, ask)
	}
	fields := format(req.Tools[at].Schema)
	if fields == nil {
		return e.Force(req, emit, ask)
	}
	native, err := formatted(req, at, fields)
	if err != nil {
		return e.Errorf(cairn.ErrModelRequest, "settings: encode options: %w", err)
	}
	return unless(&e.unformed, refusesFormat, emit,
		func(emit Emit) error {
			out := &structured{emit: emit, id: fmt.Sprintf("finish_%d", len(req.Messages))}
			return e.Force(native, out.say, ask)
		},
		func(emit Emit) error { return e.Force(req, emit, ask) })
}

// namesFormat matches the names that servers have for structured output.
var namesFormat = regexp.MustCompile(`(?i)response[_ -]?(?:format|mime|(?:json[_ -]?)?schema)|json[_ -]?(?:schema|mode|output)|` +
	`output[_ -]?(?:config|format|schema)|\btext\.format|(?:structured|json)[_ -]outputs?|(?:controlled|guided|constrained)[_ -](?:generation|decoding|json)`)

// deniesSupport matches what servers say of something that they, or the model, do not have or do not combine.
var deniesSupport = regexp.MustCompile(`(?i)unsupported|(?:\bnot|n't|\bno longer|cannot|never)\b[^.;]{0,30}\b(?:support|enable|available|permit|allow|accept|implement|compatible|combine|used?\b|recogni[sz]e|know|exist)|` +
	`unavailable|incompatible|disabled|(?:unknown|unrecogni[sz]ed|unexpected|extra|extraneous) (?:field|input|name|parameter|argument|propert|param|key|value|request arg)|\bwas unexpected|` +
	`supported values|must be (?:one of|either)|input should be|instead of populating|mutually exclusive|no endpoints found`)

// blamesSchema matches what servers answer if they know structured output and do not accept the schema.
var blamesSchema = regexp.MustCompile("(?i)invalid (?:json[_ ]?)?schema|\\bin context\\b|\\.schema\\b|\\bat '[^']*schema|schema (?:contains|has|uses|is invalid|is too)|\\b(?:in|your|provided|given) (?:\\S+ ){0,2}schema\\b|keywords? ['\"`]|for '\\w+' type")

// refusesFormat reports whether a server's answer refuses structured output, rather than the schema.
func refusesFormat(says string) bool {
	return namesFormat.MatchString(says) && deniesSupport.MatchString(says) && !blamesSchema.MatchString(says)
}

// formatted returns a request for structured output: without the tool, and with its calls as the texts that they were.
func formatted(req *cairn.Request, at int, format map[string]any) (*cairn.Request, error) {
	native := *req
	native.Tools = slices.Delete(slices.Clone(req.Tools), at, at+1)
	if native.Choice.Tool == cairn.FinishTool {
		native.Choice = cairn.ToolChoice{None: len(native.Tools) > 0}
	}
	options := maps.Clone(req.Settings.Options)
	if options == nil {
		options = map[string]any{}
	}
	for name, value := range format {
		raw, err := Encode(value)
		if err != nil {
			return nil, err
		}
		if own, ok := options[name]; ok {
			over, err := Encode(own)
			if err != nil {
				return nil, err
			}
			raw = Over(raw, bytes.TrimSpace(over))
		}
		options[name] = raw
	}
	native.Settings.Options = options
	native.Messages = nil
	for i := range req.Messages {
		if m := asText(req.Messages[i]); len(m.Parts) > 0 || len(req.Messages[i].Parts) == 0 {
			native.Messages = append(native.Messages, m)
		}
	}
	return &native, nil
}

// asText returns a message in which calls of the finish tool are text, and their errors are the user's text. A result
// without an error has nothing to say.
func asText(m cairn.Message) cairn.Message {
	finish := func(p cairn.Part) bool {
		return p.ToolUse != nil && p.ToolUse.Tool == cairn.FinishTool || p.Result != nil && p.Result.Tool == cairn.FinishTool
	}
	if !slices.ContainsFunc(m.Parts, finish) {
		return m
	}
	parts := make([]cairn.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch {
		case !finish(p):
			parts = append(parts, p)
		case p.ToolUse != nil:
			parts = append(parts, cairn.TextPart(string(p.ToolUse.Input)))
		case p.Result.IsError:
			parts = append(parts, cairn.TextPart("Error: "+Text(p.Result.Output)))
		}
	}
	m.Parts = parts
	return m
}

// structured holds the text of a reply until it is known whether it is the output: a reply with calls is not done.
type structured struct {
	emit   Emit
	id     string
	text   []byte
	open   bool // a text is open
	called bool
}

func (s *structured) say(c cairn.Chunk) error {
	switch c.Type {
	case cairn.ChunkText:
		s.open = true
		if !s.called {
			s.text = append(s.text, c.Text...)
			return nil
		}
	case cairn.ChunkPartEnd:
		if s.open && !s.called { // what belongs to a text has no place in a call
			s.open = false
			return nil
		}
	case cairn.ChunkReasoning, cairn.ChunkProvider, cairn.ChunkFile:
		s.open = false
	case cairn.ChunkToolStart:
		if err := s.flush(); err != nil {
			return err
		}
		s.called = true
	case cairn.ChunkFinish:
		return s.finish(c)
	}
	return s.emit(c)
}

// flush emits the text that was held, as text.
func (s *structured) flush() error {
	text := string(s.text)
	s.text, s.open = nil, false
	if text == "" {
		return nil
	}
	return s.emit(cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

// finish ends the reply. Only the text of a reply that was not cut is an output.
func (s *structured) finish(c cairn.Chunk) error {
	if s.called || len(bytes.TrimSpace(s.text)) == 0 || c.FinishReason != cairn.FinishReasonEnd {
		if err := s.flush(); err != nil {
			return err
		}
		return s.emit(c)
	}
	for _, chunk := range []cairn.Chunk{
		{Type: cairn.ChunkToolStart, CallID: s.id, Tool: cairn.FinishTool},
		{Type: cairn.ChunkToolArgs, CallID: s.id, Text: string(s.text)},
		{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonTools},
	} {
		if err := s.emit(chunk); err != nil {
			return err
		}
	}
	return nil
}
