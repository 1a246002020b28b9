package providertest

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// reported is an error response as a server sends it. Bodies are those of public bug reports and of recordings in the
// tests of other clients; the numbers are arbitrary.
type reported struct {
	source string
	status int
	body   string
	says   string // part of the error's message, if the body's message is not obvious
}

// message returns a body in the form of OpenAI, without a code.
func message(text string) string {
	return `{"error":{"message":"` + strings.ReplaceAll(text, `"`, `\"`) + `","type":"invalid_request_error","param":null,"code":null}}`
}

// anthropicBody returns a body in the form of Anthropic.
func anthropicBody(kind, text string) string {
	return `{"type":"error","error":{"type":"` + kind + `","message":"` + text + `"},"request_id":"req_1"}`
}

// google returns a body in the form of Google.
func google(text string) string {
	return `{"error":{"code":400,"message":"` + text + `","status":"INVALID_ARGUMENT"}}`
}

// reports is what adapters must make of the reports of servers. Each adapter may have any of these servers behind it: a
// router, a proxy, or a compatible server.
var reports = map[cairn.Code][]reported{
	cairn.ErrContextLength: {
		{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, ""},
		{"OpenAI Responses", 400, message("Your input exceeds the context window of this model. Please adjust your input and try again."), ""},
		{"OpenAI, one text", 400, `{"error":{"message":"Invalid 'messages[3].content': string too long. Expected a string with maximum length 10485760, but got a string with length 10500000 instead.","type":"invalid_request_error","param":"messages[3].content","code":"string_above_max_length"}}`, ""},
		{"Azure", 400, `{"error":{"code":"context_length_exceeded","message":"The input is too large.","type":"invalid_request_error"}}`, ""},
		{"Anthropic", 400, anthropicBody("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"), ""},
		{"Anthropic, with the output", 400, anthropicBody("invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 32000 > 200000, decrease input length or `max_tokens` and try again"), ""},
		{"Anthropic, size", 413, anthropicBody("request_too_large", "Request exceeds the maximum size"), ""},
		{"Gemini", 400, google("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."), ""},
		{"Vertex", 400, google("Unable to submit request because the input token count is 1,048,577 but the model only supports up to 1,048,576."), ""},
		{"Gemini, size", 400, google("Request payload size exceeds the limit: 20971520 bytes."), ""},
		{"Bedrock", 400, `{"message":"Input is too long for requested model."}`, ""},
		{"Bedrock, wrapped", 400, message("ValidationException: Input is too long for requested model."), ""},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, ""},
		{"Mistral", 400, `{"object":"error","message":"Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`, ""},
		{"DeepSeek", 400, message("This model's maximum context length is 65536 tokens. However, you requested 71000 tokens (67000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion."), ""},
		{"Groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, ""},
		{"Cerebras", 400, `{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}`, ""},
		{"Cerebras, without a code", 400, `{"message":"Please reduce the length of the messages or completion."}`, ""},
		{"Cerebras, without a body", 413, " ", "Too Large"},
		{"nginx", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>", ""},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.","type":"BadRequestError","param":"input_tokens","code":400}`, ""},
		{"vLLM, with the output", 400, message("'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 32768 tokens and your request has 30000 input tokens (4096 > 32768 - 30000)."), ""},
		{"vLLM, engine", 400, message("The decoder prompt (length 5951) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller."), ""},
		{"vLLM, new engine", 500, message("The engine prompt length 5000 exceeds the max_model_len 4096. Please reduce prompt."), ""},
		{"SGLang", 400, `{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}`, ""},
		{"SGLang, with the output", 400, message("Requested token count exceeds the model's maximum context length of 32768 tokens."), ""},
		{"Together", 422, message("The input (516368 tokens) is longer than the model's context length (262144 tokens)."), ""},
		{"compatible, in parentheses", 400, message("Input length (265330) exceeds model's maximum context length (262144)."), ""},
		{"TGI", 422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`\",\"error_type\":\"validation\"}", ""},
		{"TGI, input alone", 422, "{\"error\":\"Input validation error: `inputs` must have less than 4095 tokens. Given: 5000\",\"error_type\":\"validation\"}", ""},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`, ""},
		{"llama.cpp, older", 500, `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"server_error"}}`, ""},
		{"Ollama", 400, `{"error":"prompt too long; exceeded max context length by 4 tokens"}`, ""},
		{"Ollama, embedded", 500, `{"error":"the input length exceeds the context length"}`, ""},
		{"LM Studio", 400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: 4096)."}`, ""},
		{"LM Studio, older", 400, `{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`, ""},
		{"Kimi", 400, message("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"), ""},
		{"Z.ai", 400, `{"error":{"code":"1261","message":"Prompt too long"}}`, ""},
		{"Z.ai, in Chinese", 400, `{"error":{"code":"1261","message":"Prompt 超长"}}`, ""},
		{"Qwen", 400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"},"request_id":"1"}`, ""},
		{"GitHub Copilot", 400, `{"error":{"message":"prompt token count of 168929 exceeds the limit of 168000","code":"model_max_prompt_tokens_exceeded"}}`, ""},
		{"GitHub Models", 413, `{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens.","details":"Request body too large."}}`, ""},
		{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 128000 tokens. However, you requested about 140000 tokens (139000 of text input, 1000 in the output).","code":400}}`, ""},
		{"OpenRouter, wrapped text", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Invalid request: Your request exceeded model token limit: 262144\",\"type\":\"invalid_request_error\"}}","provider_name":"Moonshot AI"}}}`, "Provider returned error: Invalid request: Your request exceeded"},
		{"OpenRouter, wrapped code", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Too much.\",\"code\":\"context_length_exceeded\"}}"}}}`, "Too much."},
		{"OpenRouter, wrapped plain text", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"prompt is too long: 1 tokens > 0 maximum"}}}`, ""},
		{"GLM, Poolside", 400, `{"error":{"message":"Input length 877338 exceeds the maximum allowed input length of 639968 tokens","code":"400"}}`, ""},
		{"MiniMax", 400, message("invalid params, context window exceeds limit (2013)"), ""},
		{"Cohere", 400, `{"message":"too many tokens: size limit exceeded by 1000 tokens. Try using shorter or fewer inputs."}`, ""},
		{"Fireworks", 400, message("The prompt is too long: 140000, model maximum context length: 131071"), ""},
		{"Cloudflare", 400, `{"errors":[{"message":"AiError: The estimated number of input and maximum output tokens (8200) exceeded this model context window limit (8192).","code":5021}],"success":false}`, ""},
		{"DwarfStar", 400, message("Prompt has 5000 tokens, but the configured context size is 4096 tokens"), ""},
		{"LiteLLM", 400, message("litellm.ContextWindowExceededError: litellm.BadRequestError: the text is too large"), ""},
	},
	cairn.ErrFileRefused: {
		{"Anthropic, dimensions", 400, anthropicBody("invalid_request_error", "messages.30.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"), ""},
		{"Anthropic, size", 400, anthropicBody("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7465044 bytes > 5242880 bytes"), ""},
		{"Anthropic, type", 400, anthropicBody("invalid_request_error", "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"), ""},
		{"Anthropic, content", 400, anthropicBody("invalid_request_error", "Could not process image"), ""},
		{"Anthropic, wrong type", 400, anthropicBody("invalid_request_error", "The image was specified using the image/jpeg media type, but the image appears to be a image/png image"), ""},
		{"Anthropic, pages", 400, anthropicBody("invalid_request_error", "A maximum of 100 PDF pages may be provided."), ""},
		{"Anthropic, password", 400, anthropicBody("invalid_request_error", "messages.0.content.0.document.source.base64.data: The PDF specified is password protected."), ""},
		{"Anthropic, address", 400, anthropicBody("invalid_request_error", "Unable to download the file. Please verify the URL and try again."), ""},
		{"OpenAI, type", 400, `{"error":{"message":"You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].","type":"invalid_request_error","param":null,"code":"invalid_image_format"}}`, ""},
		{"OpenAI Responses, content", 400, `{"error":{"message":"The image data you provided does not represent a valid image. Please check your input and try again with one of the supported image formats.","type":"invalid_request_error","param":"input","code":"invalid_value"}}`, ""},
		{"OpenAI, address", 400, `{"error":{"message":"Error while downloading https://example.com/x.png. Upstream status code: 404.","type":"invalid_request_error","param":"url","code":"invalid_image_url"}}`, ""},
		{"OpenAI, size", 400, `{"error":{"message":"Too large.","type":"image_generation_user_error","code":"image_too_large"}}`, ""},
		{"OpenAI, policy", 400, `{"error":{"message":"Not allowed.","code":"image_content_policy_violation"}}`, ""},
		{"OpenAI, file", 400, message("Invalid file data: 'input[0].content[1].file_data'. Expected a base64-encoded data URL with an application/pdf MIME type."), ""},
		{"OpenAI, kind of file", 400, message("Invalid input: Expected context stuffing file type to be a supported format: .pdf but got .xlsx."), ""},
		{"OpenAI, model", 400, message("Invalid content type. image_url is only supported by certain models."), ""},
		{"Azure", 400, message("Invalid image data."), ""},
		{"Groq, model", 400, message("'messages.0' : for 'role:user' the following must be satisfied[('messages.0.content' : value must be a string)]"), ""},
		{"Groq, number", 400, message("Too many images provided. This model supports up to 5 images"), ""},
		{"Gemini, content", 400, google("Unable to process input image. Please retry or report in https://example.com"), ""},
		{"Gemini, pages", 400, google("The document has no pages."), ""},
		{"Gemini, type", 400, google("Unsupported MIME type: application/zip"), ""},
		{"Vertex, type", 400, google("Unable to submit request because the mimeType parameter with value image/tiff is not supported."), ""},
		{"Gemini, address", 400, google("Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible."), ""},
		{"DeepSeek", 400, message("Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 746109"), ""},
		{"OpenRouter, model", 404, `{"error":{"message":"No endpoints found that support image input","code":404}}`, ""},
		{"OpenRouter, wrapped", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Could not process image\"}}","provider_name":"Anthropic"}}}`, ""},
		{"vLLM, model", 400, `{"object":"error","message":"GLM-5.2 is not a multimodal model","type":"BadRequestError","code":400}`, ""},
		{"vLLM, number", 400, message("At most 1 image(s) may be provided in one prompt."), ""},
		{"vLLM, content", 400, message("cannot identify image file <_io.BytesIO object at 0x7f>"), ""},
		{"llama.cpp, model", 500, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`, ""},
		{"llama.cpp, content", 400, message("Failed to load image or audio file"), ""},
		{"Ollama", 500, `{"error":"Failed to create new sequence: this model is missing data required for image input"}`, ""},
		{"LM Studio", 400, `{"error":"Model does not support images. Please use a model that does."}`, ""},
		{"LM Studio, address", 400, `{"error":"'url' field must be a base64 encoded image."}`, ""},
		{"Z.ai", 400, `{"error":{"code":"1210","message":"图片输入格式/解析错误"}}`, ""},
		{"Z.ai, model", 400, message("messages.content.type is invalid, allowed values: ['text']"), ""},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"Fetching image failed with HTTP status 403 Forbidden."}`, ""},
		{"Mistral", 400, `{"object":"error","message":"Image, 'image_url', could not be loaded as a valid image","type":"invalid_request_file","code":"3310"}`, ""},
		{"Qwen", 400, message("<400> InternalError.Algo.InvalidParameter: The image length and width do not meet the model restrictions."), ""},
		{"Qwen, address", 400, message("<400> InternalError.Algo.InvalidParameter: The provided URL does not appear to be valid. Ensure it is correctly formatted."), ""},
		{"Kimi", 400, message("Invalid request: unsupported image url: https://example.com/x.png"), ""},
		{"GitHub Copilot", 400, message("this model does not support image input"), ""},
		{"a file that is too large", 413, message("image exceeds 10 MB maximum"), ""},
	},
	cairn.ErrModelNotFound: {
		{"OpenAI", 404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, ""},
		{"OpenAI, project", 403, `{"error":{"message":"Project does not have access to model","code":"model_not_found"}}`, ""},
		{"Anthropic", 404, anthropicBody("not_found_error", "model: claude-9"), ""},
		{"Gemini", 404, `{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta","status":"NOT_FOUND"}}`, ""},
		{"Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, ""},
		{"Groq", 400, `{"error":{"message":"The model x has been decommissioned and is no longer supported.","type":"invalid_request_error","code":"model_decommissioned"}}`, ""},
		{"Mistral", 400, `{"object":"error","message":"Invalid model: mistral-9","type":"invalid_model","param":null,"code":"1500"}`, ""},
		{"OpenRouter", 400, `{"error":{"message":"x/y is not a valid model ID","code":400}}`, ""},
		{"DeepSeek", 400, message("Model Not Exist"), ""},
		{"Bedrock", 400, `{"message":"The provided model identifier is invalid."}`, ""},
		{"Ollama", 404, `{"error":"model 'x' not found, try pulling it first"}`, ""},
		{"xAI", 404, `{"code":"Some requested entity was not found","error":"The model grok-9 does not exist or your team does not have access to it."}`, ""},
	},
	// What the tables must not take for a conversation that is too long, or for a refused file.
	cairn.ErrRateLimited: {
		{"tokens per minute", 429, message("Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced."), ""},
		{"Groq", 413, `{"error":{"message":"Request too large for model x on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, ""},
		{"Anthropic", 429, anthropicBody("rate_limit_error", "This request would exceed your organization's rate limit of 30,000 input tokens per minute; prompt is too long for it"), ""},
		{"Bedrock", 429, `{"message":"Too many tokens, please wait before trying again."}`, ""},
		{"Bedrock, wrapped", 400, `{"error":{"message":"Too many tokens, please wait before trying again.","type":"ThrottlingException"}}`, ""},
		{"images", 429, message("Too many images per minute."), ""},
	},
	cairn.ErrModelRequest: {
		{"OpenAI, output", 400, message("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."), ""},
		{"Anthropic, output", 400, anthropicBody("invalid_request_error", "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude"), ""},
		{"Groq, output", 400, message("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context window` for this model"), ""},
		{"Qwen, output", 400, message("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"), ""},
		{"vLLM, output", 400, message("'max_tokens' or 'max_completion_tokens' is too large: 40000. This model's maximum context length is 32768 tokens and your request has 1000 input tokens (40000 > 32768 - 1000)."), ""},
		{"OpenAI, output of the whole window", 400, message("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the messages, 8192 in the completion)."), ""},
		{"Gemini, output", 400, google("Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive)."), ""},
		{"an item of the request", 404, message("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."), ""},
		{"a tool that is about images", 400, message("Invalid schema for function 'resize_image': property 'image' is missing."), ""},
		{"null", 400, `{"error":null}`, "Bad Request"},
	},
}

// reports checks the errors for the reports of all servers.
func (a Adapter[Q, R]) reports(t *testing.T) {
	for code, list := range reports {
		var replies []R
		for _, r := range list {
			replies = append(replies, a.Text("", Wire{Status: r.status, Raw: r.body}))
		}
		m, _ := a.serve(t, replies...)
		for _, r := range list {
			_, err := Ask(t.Context(), m, Hello())
			if e := cairn.AsError(err); e == nil || e.Code != code || !strings.Contains(e.Message, r.says) {
				t.Errorf("%s: got %v\n%+v\nwant %s", r.source, err, e, code)
			}
		}
	}
}
