// Package mcp connects agents with MCP, the Model Context Protocol, by its official Go SDK.
//
// A [Server] is an MCP server whose tools agents can use, as a cairn.Toolset. It is reached over the pipes of a
// command ([Command]) or over HTTP ([URL]). Its tools are listed when a turn begins, and the list is pinned in the
// session, so every process that drives the turn has the same list. What a server asks the user during a call, by
// elicitation, becomes a pending call in the inbox: the run is suspended, the process may end, and the call
// continues once there is an answer.
//
// Input from a server is not trusted. Names, schemas and sizes are checked. Errors and results are only ever the result
// of a call. Of a tool's annotations only readOnlyHint is read, and only if [Options.Cache] asks for it; approval never
// depends on one.
//
// The server determines the protocol's revision: 2026-07-28 or an earlier one. Elicitation needs 2026-07-28.
package mcp
