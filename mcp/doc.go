// Package mcp connects agents with MCP, the Model Context Protocol, by its official Go SDK.
//
// A [Server] is an MCP server whose tools agents are given, as a cairn.Toolset: over the pipes of a command ([Command]) or
// over HTTP ([URL]). Its tools are listed when a turn begins, and the list is pinned in the session, so every process that
// drives the turn has the same. What a server asks of the user in the middle of a call, by elicitation, becomes a pending
// call in the inbox: the run is suspended, the process may end, and the call is continued when there is an answer.
//
// What comes from a server is not trusted: names, schemas and sizes are checked, and errors and results are what the model
// reads, not what the event log says. Of a tool's annotations only readOnlyHint is read, and only where [Options.Cache] asks
// for it; approval never depends on one.
//
// The protocol's revisions are 2026-07-28 and those before, as the server has it. Elicitation needs 2026-07-28.
package mcp
