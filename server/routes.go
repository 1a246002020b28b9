package server

import (
	"net/http"

	"github.com/cairn-agents/cairn"
)

// routes returns the routes of the server. A route about a session calls [request.open] first.
func routes() []route {
	return []route{
		answer("POST", "/start", "Start a turn, of a new session or an existing one", http.StatusAccepted, start),
		answer("POST", "/resume", "Resume a session", http.StatusAccepted, resume),
		answer("POST", "/retry", "Run a failed turn again from its last committed step", http.StatusAccepted, retry),
		answer("GET", "/status", "A session's status", http.StatusOK, status),
		answer("POST", "/interrupt", "Stop a run and keep its output so far", http.StatusOK, interrupt),
		answer("POST", "/abort", "Stop a run as failed", http.StatusOK, abort),
		answer("POST", "/submit-tool-result", "Answer a pending call", http.StatusOK, submit),
		stream[cairn.Event]("GET", "/sse", "The events of a session, or of one of its runs", events),

		lastOf("messages", stream[chatChunk]("POST", "/chat", "Send a message or answers to pending calls, as the AI SDK's chat does", chat)),
		answer("GET", "/chat/{id}", "The conversation as a chat client shows it, the newest messages first", http.StatusOK, getChat),
		answer("PATCH", "/chat/{id}", "Archive a chat, or change it as PATCH /sessions/{id} does", http.StatusOK, patchChat),
		answer("DELETE", "/chat/{id}", "Delete a chat: the sessions of its thread", http.StatusNoContent, deleteChat),
		answer("GET", "/chat/{id}/branches", "The versions of the chat that an edit has replaced, newest first", http.StatusOK, listBranches),
		stream[chatChunk]("GET", "/chat/{id}/stream", "The turn under way, from its beginning; 204 if no turn is under way", resumeChat),
		answer("POST", "/chat/{id}/submit-tool-result", "Answer a pending call", http.StatusOK, chatSubmit),
		answer("POST", "/chat/{id}/interrupt", "Stop the turn and keep its output so far", http.StatusOK, chatInterrupt),
		answer("POST", "/chat/{id}/abort", "Stop the turn as failed", http.StatusOK, chatAbort),

		answer("POST", "/sessions", "Create a session", http.StatusCreated, createSession),
		answer("GET", "/sessions", "List sessions, newest first", http.StatusOK, listSessions),
		answer("GET", "/sessions/{id}", "A session", http.StatusOK, getSession),
		answer("PATCH", "/sessions/{id}", "Change a session's title, tags, metadata, expiry or user, or archive it", http.StatusOK, patchSession),
		answer("DELETE", "/sessions/{id}", "Delete a session with its tree", http.StatusNoContent, deleteSession),
		answer("POST", "/sessions/{id}/restore", "Restore a session that was deleted or has expired", http.StatusOK, restoreSession),
		answer("GET", "/sessions/{id}/usage", "The usage of a session, alone and with the sessions below it", http.StatusOK, usageOf),
		answer("GET", "/sessions/{id}/snapshot", "The transcript with the cursor of the events that follow it", http.StatusOK, snapshot),
		answer("PUT", "/sessions/{id}/state", "Set the state of a session between turns", http.StatusOK, putState),
		answer("GET", "/sessions/{id}/messages", "The messages that a chat shows", http.StatusOK, listMessages),
		answer("GET", "/sessions/{id}/turns", "Where each turn begins in the messages, and how often it has a text", http.StatusOK, listTurns),
		answer("GET", "/sessions/{id}/messages/{message}/request", "The request that a reply answered: the instructions and tools as they were", http.StatusOK, getRequest),
		signedFile("/sessions/{id}/messages/{message}/files/{file}", "A file of a message, or an artifact", getFile),
		answer("GET", "/sessions/{id}/artifacts", "The files that the session made for its user, oldest first, with addresses", http.StatusOK, listArtifacts),
		answer("GET", "/sessions/{id}/workspace", "The files of the session's workspace, as of its last snapshot", http.StatusOK, listWorkspace),
		file("/sessions/{id}/workspace/file", "A file of the session's workspace", getWorkspaceFile),
		answer("GET", "/sessions/{id}/workspace/snapshots", "The snapshots of the session's workspace, oldest first", http.StatusOK, listWorkspaceSnapshots),
		answer("POST", "/sessions/{id}/workspace/restore", "Restore the files of the session's workspace between turns", http.StatusOK, restoreWorkspace),
		file("/sessions/{id}/export", "The session as a line of JSON or as a page, with those below it", exportSession),
		answer("GET", "/sessions/{id}/runs", "The runs, by turn", http.StatusOK, listRuns),
		answer("GET", "/sessions/{id}/checkpoints", "The checkpoints, in order of writing", http.StatusOK, listCheckpoints),
		answer("GET", "/sessions/{id}/checkpoints/{checkpoint}", "A checkpoint with the state at that point", http.StatusOK, getCheckpoint),
		answer("GET", "/sessions/{id}/decisions", "The decisions about the session's pending calls, by call", http.StatusOK, listDecisions),
		answer("POST", "/sessions/{id}/scores", "Keep a score of a session, a run or a message", http.StatusOK, score),
		answer("GET", "/sessions/{id}/scores", "The scores of a session, oldest first", http.StatusOK, listScores),
		answer("POST", "/sessions/{id}/checkpoints", "Make a checkpoint of a session between turns", http.StatusCreated, makeCheckpoint),
		answer("GET", "/sessions/{id}/stream", "The extent of the session's event stream, and whether it has ended", http.StatusOK, streamOf),
		answer("POST", "/sessions/{id}/events", "Publish a custom event on the session's stream", http.StatusNoContent, emit),
		answer("GET", "/sessions/{id}/queue", "The queued turns, in order", http.StatusOK, listQueue),
		answer("DELETE", "/sessions/{id}/queue/{run}", "Remove a turn from the queue", http.StatusNoContent, dequeue),
		answer("POST", "/sessions/{id}/branch", "Make a new session from this one", http.StatusCreated, branch),
		answer("POST", "/sessions/{id}/fork", "Make a new session that continues from a point of this one with something changed", http.StatusCreated, fork),
		answer("POST", "/sessions/{id}/clear-taint", "End the taint of a session whose model has read text of strangers", http.StatusNoContent, clearTaint),
		answer("POST", "/sessions/{id}/rewind", "Rewind the session to a checkpoint", http.StatusOK, rewind),

		answer("POST", "/sessions/{id}/advance", "Drive one step of the session's run, on a server that leaves that to callers", http.StatusOK, advanceSession),
		anonymous(answer("POST", "/advance", "Drive one step of the run that a ticket names", http.StatusOK, advanceTicket)),

		answer("GET", "/session-counts", "How many sessions have each status", http.StatusOK, countSessions),

		answer("GET", "/agents", "The agents that new sessions may have", http.StatusOK, listAgents),

		answer("GET", "/inbox", "Pending calls, oldest first", http.StatusOK, inbox),
		answer("GET", "/inbox/{root}/{call}", "A pending call with its audit trail", http.StatusOK, getCall),
		answer("POST", "/inbox/{root}/{call}/claim", "Reserve a pending call for a time", http.StatusOK, claim),
		answer("POST", "/inbox/{root}/{call}/release", "Release a claim", http.StatusOK, release),

		answer("GET", "/effects", "The ledger of effects: the calls of effectful tools", http.StatusOK, listEffects),
		answer("POST", "/effects/{root}/{call}/settle", "Record whether an unknown effect happened", http.StatusOK, settleEffect),

		answer("GET", "/memory/entries", "The memories of a user, a session or a group, newest first", http.StatusOK, listMemories),
		answer("POST", "/memory/entries", "Add a memory", http.StatusCreated, addMemory),
		answer("DELETE", "/memory/entries", "Delete all memories of a user, a session or a group", http.StatusNoContent, forgetMemories),
		answer("GET", "/memory/entries/{entry}", "A memory with its history", http.StatusOK, getMemory),
		answer("DELETE", "/memory/entries/{entry}", "Delete a memory with all its versions", http.StatusOK, forgetMemory),
		answer("POST", "/memory/entries/{entry}/correct", "Add a newer version of a memory", http.StatusOK, correctMemory),
		answer("POST", "/memory/entries/{entry}/redact", "Remove the text of a memory and keep its place in the history", http.StatusOK, redactMemory),
		answer("POST", "/memory/entries/{entry}/promote", "Make a quarantined memory active", http.StatusOK, promoteMemory),
		answer("GET", "/memory/search", "The memories that fit a text best", http.StatusOK, searchMemories),
		answer("GET", "/memory/entities", "Who and what the memories are about", http.StatusOK, listMemoryEntities),
		answer("GET", "/memory/sources", "How many memories there are from each kind of source", http.StatusOK, listMemorySources),
		answer("GET", "/usage", "Usage across sessions, by day and other dimensions", http.StatusOK, usage),
		answer("GET", "/budgets", "How much of the budgets of periods is used", http.StatusOK, budgets),

		answer("GET", "/operations", "The workers, the leases, and the sessions that need a worker, for operators", http.StatusOK, operations),

		signsIn(answer("POST", "/console/session", "Sign in: exchange the request's credentials for a cookie", http.StatusCreated, signIn)),
		answer("GET", "/console/session", "The principal of the request, and when its sign-in expires", http.StatusOK, whoAmI),
		answer("DELETE", "/console/session", "Sign out, or end all sign-ins of a user", http.StatusNoContent, signOut),

		anonymous(answer("GET", "/openapi.json", "This API as an OpenAPI 3.1 document", http.StatusOK, getOpenAPI)),
		anonymous(answer("GET", "/healthz", "Whether the process is alive", http.StatusOK, healthz)),
		anonymous(answer("GET", "/readyz", "Whether the process accepts requests", http.StatusOK, readyz)),
	}
}

func lastOf(list string, r route) route {
	r.lastOf = list
	return r
}

func signsIn(r route) route {
	r.signsIn = true
	return r
}

func anonymous(r route) route {
	r.anonymous = true
	return r
}
