// Package wording knows the words in which the servers of models report failures that have no code of their own.
package wording

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
)

// row is how a server reports a kind of failure: by a part of its code or type, or by its message.
type row struct {
	source  string // the server, or what it has in common with others
	kind    string // part of the lower-case code or type
	message string // regular expression for the message; case does not matter
}

// tooLong lists the reports of a conversation that exceeds the model's window, or the size of requests that the server
// accepts. Texts are those of public bug reports and of tests of other clients.
var tooLong = compile(cairn.ErrContextLength, []row{
	{"OpenAI, Azure, Groq, Cerebras", "context_length", ""},
	{"OpenAI Responses; Cloudflare; MiniMax", "context_window", `context window`},
	{"OpenAI, a single text", "", `invalid '(?:messages|input)\b.*string too long`},
	{"Anthropic; Fireworks", "", `prompt is too long`},
	{"Anthropic, with the output", "", `input length and .max_tokens. exceed context limit`},
	{"Anthropic, size in bytes", "request_too_large", ""},
	{"Gemini", "", `input token count.{0,80}(?:exceeds|supports up to)`},
	{"Gemini, size in bytes", "", `request payload size exceeds the limit`},
	{"Amazon Bedrock", "", `input is too long|input tokens exceed|tokens in request more than max tokens allowed`},
	{"xAI", "", `maximum prompt length is [\d,]+`},
	{"Mistral", "", `too large for model with [\d,]+ maximum context length`},
	{"DeepSeek, vLLM, OpenRouter", "", `maximum context length (?:is|of|\()`},
	{"vLLM, length of a model", "", `longer than the maximum model length|exceeds (?:the )?max_model_len`},
	{"SGLang, Together", "", `longer than the model'?s context length|exceeds? (?:the )?(?:model'?s )?maximum context length`},
	{"Text Generation Inference", "", ".inputs. tokens \\+ .max_new_tokens. must be|.inputs. must have less than [\\d,]+ tokens"},
	{"llama.cpp", "exceed_context_size", `exceeds? (?:the |this )?(?:model'?s )?(?:available )?context(?: size)?\b`},
	{"Ollama", "", `prompt too long; exceeded|input length.{0,40}exceeds.{0,40}context`},
	{"LM Studio", "", `greater than the context length|context length of only [\d,]+|tokens when context the overflows`},
	{"Moonshot (Kimi)", "", `exceeded model token limit`},
	{"Z.ai", "1261", `prompt too long|prompt 超长`},
	{"Alibaba Model Studio (Qwen)", "", `range of input length should be`},
	{"GitHub Copilot", "model_max_prompt_tokens", `prompt token count of [\d,]+ exceeds the limit`},
	{"GitHub Models", "tokens_limit_reached", `request body too large for .* max size: [\d,]+ tokens`},
	{"GLM, Poolside", "", `exceeds the maximum allowed input length`},
	{"Cohere", "", `too many tokens: size limit exceeded`},
	{"DwarfStar", "", `but the configured context size is [\d,]+ tokens`},
	{"Groq, Cerebras, without a code", "", `reduce the length of the (?:input )?(?:messages|prompt)`},
	{"LiteLLM", "contextwindowexceeded", `contextwindowexceedederror`},
	{"older servers", "", `context length exceeded`},
})

// refusedFile lists the reports of a file or image of the conversation that the server does not accept: because of its
// size, type or content, because it cannot fetch it, or because the model reads no such files.
var refusedFile = compile(cairn.ErrFileRefused, []row{
	{"Anthropic, with the path of the part", "", `\.(?:image|document)\.(?:source|file)\b`},
	{"Anthropic, dimensions and size", "", `image dimensions exceed|image exceeds [\d.]+ ?mb`},
	{"Anthropic, content", "", `could not process (?:image|pdf|document)|does not match the provided media type|using the image/\S+ media type`},
	{"Anthropic, PDF", "", `\d+ pdf pages|the pdf specified`},
	{"Anthropic, address", "", `unable to download the file|disallowed by the website's robots`},
	{"OpenAI, codes of images", "image_too_", ""},
	{"OpenAI, codes of invalid images", "invalid_image", ""},
	{"OpenAI, base64", "invalid_base64_image", `invalid base64 image|base64-encoded data url`},
	{"OpenAI, parser", "image_parse_error", `does not represent a valid image`},
	{"OpenAI, policy of images", "image_content_policy", ""},
	{"OpenAI, files of images", "image_file", ""},
	{"OpenAI, empty file", "empty_image_file", ""},
	{"OpenAI, type", "unsupported_image", `unsupported image`},
	{"OpenAI, address", "failed_to_download", `(?:error|timeout) while downloading`},
	{"OpenAI, type of file", "unsupported_file", `expected context stuffing file type|invalid file data|invalid mime type`},
	{"OpenAI, model without images", "", `image_url is only supported by certain models|invalid value: '(?:image_url|file|input_image|input_file)'`},
	{"Azure, Groq", "", `invalid image(?:$|[ .:_])|too many images`},
	{"Groq, model without images", "", `content'? ?: (?:value )?must be a string|content must be a string`},
	{"Gemini", "", `unable to process input image|provided image is not valid|the document has no pages`},
	{"Gemini, type", "", `unsupported mime ?type|mime ?type.{0,80}(?:not supported|unsupported)`},
	{"Gemini, address", "", `cannot fetch content from the provided url|unsupported file uri`},
	{"DeepSeek, model without images", "", "unknown variant .?(?:image_url|file|input_image|input_file)"},
	{"OpenRouter, model without images", "", `no endpoints found that support (?:image|file|pdf|audio|video)`},
	{"vLLM, model without images", "", `not a multimodal model|at most \d+ (?:image|video|audio)`},
	{"vLLM, content", "", `cannot identify image file`},
	{"llama.cpp, Ollama", "", `data required for image input|unable to make .{0,20}embedding`},
	{"LM Studio", "", `must be a base64 encoded image`},
	{"Z.ai", "", `图片(?:输入格式|解析|格式)|content\.type is invalid, allowed values`},
	{"xAI", "", `fetching image failed|unrecognized image`},
	{"Mistral", "", `(?:image|file|document).{0,80}could not be (?:loaded|fetched)`},
	{"Alibaba Model Studio (Qwen)", "", `multimodal (?:file|data|content)|image length and width|url does not appear to be valid`},
	{"models without images", "", `(?:images?|vision|pdfs?|files?)(?: inputs?| content)? (?:is|are) not supported|(?:does not|doesn't) support (?:images?|vision|files?|pdf)`},
	{"servers that decode files", "", `failed to (?:decode|parse|load|download|fetch|process|read) (?:the )?(?:input )?(?:image|pdf|file|document)`},
})

// unknownModel lists the reports of a model that the server does not have, with a status other than 404.
var unknownModel = compile(cairn.ErrModelNotFound, []row{
	{"OpenAI, Groq, Cerebras", "model_not_found", ""},
	{"Groq", "model_decommissioned", `has been decommissioned`},
	{"Mistral", "invalid_model", `^invalid model: `},
	{"Together", "model_not_available", ""},
	{"Azure", "deploymentnotfound", ""},
	{"OpenRouter", "", `is not a valid model id`},
	{"DeepSeek", "", `^model not exist`},
	{"Amazon Bedrock", "", `the provided model identifier is invalid|reached the end of its life`},
	{"GitHub Copilot", "model_not_supported", `the requested model is not supported`},
	{"xAI, Alibaba Model Studio (Qwen), OpenAI", "", "the model .{1,200} does not exist"},
})

// words is a compiled list of wordings.
type words struct {
	code    cairn.Code
	kinds   []string
	message *regexp.Regexp
}

func compile(code cairn.Code, list []row) words {
	w := words{code: code}
	var messages []string
	for _, row := range list {
		if row.kind != "" {
			w.kinds = append(w.kinds, row.kind)
		}
		if row.message != "" {
			messages = append(messages, row.message)
		}
	}
	w.message = regexp.MustCompile(`(?is)` + strings.Join(messages, "|"))
	return w
}

// match reports whether a code or type, in lower case, or a message is one of the list.
func (w *words) match(kind, message string) bool {
	for _, k := range w.kinds {
		if strings.Contains(kind, k) {
			return true
		}
	}
	return message != "" && w.message.MatchString(message)
}

// UnknownModel reports whether a failure means that the server does not have the model. kind is its code and type.
func UnknownModel(kind, message string) bool {
	return unknownModel.match(strings.ToLower(kind), message)
}

// Limited reports whether the code and type of a failure mean that there were too many requests.
func Limited(kind string) bool {
	kind = strings.ToLower(kind)
	return strings.Contains(kind, "rate_limit") || strings.Contains(kind, "throttl")
}

// PerTime reports whether a message is about a limit per time.
func PerTime(message string) bool { return rated.MatchString(message) }

// Conversation returns the code of a failure for which the conversation is at fault: ErrContextLength or
// ErrFileRefused. ok is false for any other failure. kind is the failure's code and type.
func Conversation(kind, message string) (code cairn.Code, ok bool) {
	kind = strings.ToLower(kind)
	other := Limited(kind) || rated.MatchString(message) || aboutOutput(message) // which may name tokens, windows and images
	switch {
	case tooLong.match(kind, "") || !other && tooLong.match("", message):
		return tooLong.code, true
	case !other && refusedFile.match(kind, message):
		return refusedFile.code, true
	}
	return "", false
}

// rated matches messages about a limit per time, which may name tokens and windows.
var rated = regexp.MustCompile(`(?i)per (?:minute|hour|day|second)|rate.?limit|throttl|too many requests|please wait`)

// Complaints about the requested length of the reply, which may name the window. Some servers complain in one form about
// both: the reply is at fault if it does not fit by itself.
var (
	output      = regexp.MustCompile(`(?is)max_(?:completion_|output_|new_)?tokens[^.]{0,60}(?:less than or equal|at most|maximum allowed number of output|should be)|completion tokens, whereas`)
	outputFirst = regexp.MustCompile(`(?is)max_(?:completion_)?tokens.{0,20} is too large: (?P<asked>\d+).*maximum context length is (?P<window>\d+)`)
	outputLast  = regexp.MustCompile(`(?is)maximum context length is (?P<window>\d+).*\D(?P<asked>\d+) in the (?:completion|output)`)
)

// aboutOutput reports whether a message is about the length of the reply rather than that of the conversation.
func aboutOutput(message string) bool {
	for _, form := range []*regexp.Regexp{outputFirst, outputLast} {
		if m := form.FindStringSubmatch(message); m != nil {
			asked, _ := strconv.Atoi(m[form.SubexpIndex("asked")])
			window, _ := strconv.Atoi(m[form.SubexpIndex("window")])
			return asked >= window
		}
	}
	return output.MatchString(message)
}
