// Package traces exports the work of sessions as OpenTelemetry spans: invoke_agent for each run, chat for each model call,
// execute_tool for each call of a tool or agent, by the conventions for generative AI.
//
// Spans are made of the event logs of sessions: of committed steps, with their recorded times, whichever process did the
// work. Their ids follow from the ids of runs, steps and calls. So a takeover, a second attempt or the replay of a workflow
// doubles no span, and another process exports the spans that a process had still to export when it died. An attempt that
// was discarded has spans that are marked so. A span may be sent twice, equal in ids and content, if a process dies while
// it exports.
//
// An [Exporter] works besides the engine and adds nothing to a turn. It finds sessions by the usage rows that their commits
// have written, see [engine.Engine.UsageRows]: one read of the store in each interval, however many sessions there are.
// Any number of processes may run one; one of them exports at a time, and the others take its place if it dies.
package traces
