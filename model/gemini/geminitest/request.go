package geminitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Request is a request of a client.
type Request struct {
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"-"`
	Model  string          `json:"-"`

	System   *Turn             `json:"systemInstruction"`
	Contents []Turn            `json:"contents"`
	Tools    []json.RawMessage `json:"tools"`
	Config   struct {
		Calling struct {
			Mode  string   `json:"mode"`
			Names []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
}

// Turn is one content of a request.
type Turn struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

// Piece is a part of a request.
type Piece struct {
	Text       string `json:"text"`
	Thought    bool   `json:"thought"`
	Signature  string `json:"thoughtSignature"`
	InlineData *struct {
		MIMEType string `json:"mimeType"`
		Data     []byte `json:"data"`
	} `json:"inlineData"`
	FileData *struct {
		FileURI string `json:"fileUri"`
	} `json:"fileData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
		Parts    []Piece         `json:"parts"`
	} `json:"functionResponse"`
}

// Pieces returns the parts of a turn, decoded.
func (t *Turn) Pieces() []Piece { return testserver.Decoded[Piece](t.Parts) }

// Text returns a turn's text.
func (t *Turn) Text() string {
	var b strings.Builder
	for _, p := range t.Pieces() {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Last returns the last turn.
func (r *Request) Last() *Turn { return &r.Contents[len(r.Contents)-1] }

// Prefix returns a request as the provider's cache sees it: one line for each tool, the instructions and each part.
func (r *Request) Prefix() []string {
	var list []string
	for _, raw := range r.Tools {
		list = append(list, string(raw))
	}
	if r.System != nil {
		list = append(list, r.System.Text())
	}
	for i := range r.Contents {
		for _, raw := range r.Contents[i].Parts {
			list = append(list, r.Contents[i].Role+" "+string(raw))
		}
	}
	return list
}

// skip is the signature of a call that another model made.
const skip = "skip_thought_signature_validator"

// sign returns the signature of a text or a call.
func sign(model, text string, args json.RawMessage) string {
	var v any
	_ = json.Unmarshal(args, &v) // nil without arguments
	canonical, _ := json.Marshal(v)
	return testserver.Sign("gemini %q %q %s", model, text, canonical)
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// check reports what Google would reject.
func (r *Request) check() error {
	if len(r.Contents) == 0 {
		return fmt.Errorf("* GenerateContentRequest.contents: contents is not specified")
	}
	if err := r.checkTools(); err != nil {
		return err
	}
	var open []string // names of the calls that need a response in the next turn
	for i := range r.Contents {
		t := &r.Contents[i]
		var err error
		if open, err = t.check(r.Model, i, r.Contents[:i], open); err != nil {
			return fmt.Errorf("contents[%d]: %w", i, err)
		}
	}
	switch {
	case len(open) > 0:
		return fmt.Errorf("the number of function response parts must equal the number of function call parts: %v are open", open)
	case r.Last().Role == "model":
		return fmt.Errorf("please ensure that the last turn is one of the user")
	}
	return nil
}

func (r *Request) checkTools() error {
	var names []string
	for _, raw := range r.Tools {
		var t struct {
			Functions []struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		for _, f := range t.Functions {
			switch {
			case !identifier.MatchString(f.Name) || slices.Contains(names, f.Name):
				return fmt.Errorf("invalid or duplicate function name %q", f.Name)
			case !strings.HasPrefix(string(f.Parameters), "{"):
				return fmt.Errorf("function %q: the schema is missing", f.Name)
			}
			names = append(names, f.Name)
		}
	}
	for _, name := range r.Config.Calling.Names {
		if r.Config.Calling.Mode != "ANY" || !slices.Contains(names, name) {
			return fmt.Errorf("allowed_function_names: %q with mode %s", name, r.Config.Calling.Mode)
		}
	}
	return nil
}

// check reports what is wrong with a turn, and returns the calls that it leaves open.
func (t *Turn) check(model string, i int, before []Turn, open []string) ([]string, error) {
	switch {
	case t.Role != "user" && t.Role != "model":
		return nil, fmt.Errorf("please use a valid role: user, model")
	case len(t.Parts) == 0:
		return nil, fmt.Errorf("parts must not be empty")
	case t.Role == "model" && (i == 0 || before[i-1].Role == "model"):
		return nil, fmt.Errorf("please ensure that a turn of the model comes after one of the user")
	case t.Role == "model" && len(open) > 0:
		return nil, fmt.Errorf("the calls %v have no response", open)
	}
	var calls, answers []string
	for _, raw := range t.Parts {
		var p Piece
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		if err := p.check(model, t.Role, len(calls) == 0); err != nil {
			return nil, err
		}
		if p.Call != nil {
			calls = append(calls, p.Call.ID+" "+p.Call.Name)
		}
		if p.Response != nil {
			answers = append(answers, p.Response.ID+" "+p.Response.Name)
		}
	}
	slices.Sort(answers)
	slices.Sort(open)
	if !slices.Equal(answers, open) {
		return nil, fmt.Errorf("please ensure that the number of function response parts is equal to that of the function call parts: %v for %v", answers, open)
	}
	return calls, nil
}

// withFiles matches the models that accept files in function responses.
var withFiles = regexp.MustCompile(`gemini-[3-9]`)

// check reports what is wrong with a part. first means that no call precedes it in its turn.
func (p *Piece) check(model, role string, first bool) error {
	switch {
	case p.Call != nil && (role != "model" || !identifier.MatchString(p.Call.Name) || !strings.HasPrefix(string(p.Call.Args), "{")):
		return fmt.Errorf("function call %q is malformed or not of the model", p.Call.Name)
	case p.Response != nil && (role != "user" || !strings.HasPrefix(string(p.Response.Response), "{")):
		return fmt.Errorf("function response %q is malformed or not of the user", p.Response.Name)
	case p.Response != nil && len(p.Response.Parts) > 0 && !withFiles.MatchString(model):
		return fmt.Errorf("unable to submit request because `function_response.parts` is not supported for this model")
	case p.Response != nil && withFiles.MatchString(model) && strings.Contains(string(p.Response.Response), `"$ref":`):
		return fmt.Errorf("the referenced name in function_response.response does not match to a display_name in the function_response.parts")
	case p.Response != nil && slices.ContainsFunc(p.Response.Parts, func(f Piece) bool { return f.InlineData == nil || len(f.InlineData.Data) == 0 }):
		return fmt.Errorf("function_response.parts: required oneof field 'data' must have one initialized field")
	case p.Call != nil && first && p.Signature == "":
		return fmt.Errorf("function call %q is missing a thought_signature", p.Call.Name)
	case p.Call != nil && p.Signature != "" && p.Signature != skip && p.Signature != sign(model, p.Call.Name, p.Call.Args):
		return fmt.Errorf("thought signature is not valid")
	case p.Call == nil && p.Signature != "" && p.Signature != sign(model, p.Text, nil):
		return fmt.Errorf("thought signature is not valid")
	case p.InlineData != nil && (len(p.InlineData.Data) == 0 || p.InlineData.MIMEType == ""):
		return fmt.Errorf("inline_data: required oneof field 'data' must have one initialized field")
	case p.FileData != nil && p.FileData.FileURI == "":
		return fmt.Errorf("file_data: required field 'file_uri' is not set")
	}
	return nil
}
