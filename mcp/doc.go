// Package mcp connects agents with MCP, the Model Context Protocol, by its official Go SDK.
//
// A [Server] is an MCP server whose tools agents can use, as a cairn.Toolset. The connection uses the pipes of a
// command ([Command]) or HTTP ([URL]). The engine lists the server's tools when a turn begins and pins the list in the
// session, so every process that drives the turn has the same list. A question to the user during a call (elicitation)
// becomes a pending call in the inbox: the run is suspended, the process may end, and the call continues once there is
// an answer.
//
// Input from a server is not trusted. The package checks names, schemas and sizes. An error or a result of a server
// affects only the result of its call. The only annotation of a tool that the package reads is readOnlyHint, if
// [Options.Cache] asks for it; approval never depends on an annotation.
//
// The server determines the protocol's revision: 2026-07-28 or an earlier one. Elicitation needs 2026-07-28.
package mcp
