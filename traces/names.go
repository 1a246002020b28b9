package traces

import "go.opentelemetry.io/otel/attribute"

// The names of spans, attributes and events. Those that begin with gen_ai are of the OpenTelemetry conventions for
// generative AI, v0.1.0; those that begin with cairn have no name there.
const (
	opInvokeAgent = "invoke_agent"
	opChat        = "chat"
	opExecuteTool = "execute_tool"

	attrOperation    = attribute.Key("gen_ai.operation.name")
	attrConversation = attribute.Key("gen_ai.conversation.id")
	attrCompacted    = attribute.Key("gen_ai.conversation.compacted")
	attrAgent        = attribute.Key("gen_ai.agent.name")
	attrProvider     = attribute.Key("gen_ai.provider.name")
	attrRequestModel = attribute.Key("gen_ai.request.model")
	attrModel        = attribute.Key("gen_ai.response.model")
	attrInput        = attribute.Key("gen_ai.usage.input_tokens")
	attrOutput       = attribute.Key("gen_ai.usage.output_tokens")
	attrCacheRead    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	attrCacheWrite   = attribute.Key("gen_ai.usage.cache_write.input_tokens")
	attrReasoning    = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	attrTool         = attribute.Key("gen_ai.tool.name")
	attrToolCall     = attribute.Key("gen_ai.tool.call.id")
	attrToolType     = attribute.Key("gen_ai.tool.type")
	attrArguments    = attribute.Key("gen_ai.tool.call.arguments")
	attrResult       = attribute.Key("gen_ai.tool.call.result")
	attrMessagesIn   = attribute.Key("gen_ai.input.messages")
	attrMessagesOut  = attribute.Key("gen_ai.output.messages")
	attrError        = attribute.Key("error.type")
	attrService      = attribute.Key("service.name")
	attrSession      = attribute.Key("session.id")
	attrUser         = attribute.Key("user.id")

	attrOwnSession = attribute.Key("cairn.session.id")
	attrTenant     = attribute.Key("cairn.tenant")
	attrRun        = attribute.Key("cairn.run.id")
	attrStatus     = attribute.Key("cairn.run.status")
	attrReason     = attribute.Key("cairn.run.reason")
	attrSteps      = attribute.Key("cairn.run.steps")
	attrStep       = attribute.Key("cairn.step")
	attrDiscarded  = attribute.Key("cairn.discarded")
	attrPending    = attribute.Key("cairn.pending")
	attrCached     = attribute.Key("cairn.cached")
	attrAttempts   = attribute.Key("cairn.attempts")
	attrCost       = attribute.Key("cairn.cost.usd")
	attrDeadline   = attribute.Key("cairn.deadline")
	attrLink       = attribute.Key("cairn.link")

	eventPending   = "cairn.call.pending"
	eventSuspended = "cairn.run.suspended"
	eventResumed   = "cairn.run.resumed"
	eventSent      = "cairn.effect.sent"
	eventUnknown   = "cairn.effect.unknown"
	eventSettled   = "cairn.effect.settled"

	linkPrevious = "previous_run"

	// scope is the instrumentation scope of the spans.
	scope = "github.com/cairn-agents/cairn/traces"
)

// The attributes by which Langfuse groups and shows observations.
const (
	attrTraceName   = attribute.Key("langfuse.trace.name")
	attrTraceTags   = attribute.Key("langfuse.trace.tags")
	attrObservation = attribute.Key("langfuse.observation.type")
	attrLevel       = attribute.Key("langfuse.observation.level")
	attrObsModel    = attribute.Key("langfuse.observation.model.name")
	attrObsUsage    = attribute.Key("langfuse.observation.usage_details")
	attrObsCost     = attribute.Key("langfuse.observation.cost_details")
	attrObsInput    = attribute.Key("langfuse.observation.input")
	attrObsOutput   = attribute.Key("langfuse.observation.output")
)
