// A chat on a durable session. The page keeps nothing but the id of the session, in its address: what it shows comes from
// the server, also after a reload in the middle of an answer, in another tab, and when the server's process has died.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useCallback, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { whole } from "./whole.js";

const VERSION = 7; // the major version of the AI SDK

// Of what the client knows only the last message counts: the transcript is the server's.
const transport = new (whole(DefaultChatTransport))({
  api: "/chat",
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, trigger, messageId, messages: messages.slice(-1), version: VERSION, on_busy: "enqueue" },
  }),
  prepareReconnectToStreamRequest: ({ id }) => ({ api: `/chat/${encodeURIComponent(id)}/stream?version=${VERSION}` }),
});

const post = async (path, body) => {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).detail);
};

// load returns what the server has of a session. One that nothing was said in yet is not there.
const load = async (id) => {
  const answer = await fetch(`/chat/${encodeURIComponent(id)}?version=${VERSION}`);
  if (answer.status === 404) return { messages: [], streaming: false };
  if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
  return answer.json();
};

const session = () => location.hash.slice(1) || (location.hash = crypto.randomUUID()).slice(0);

function App() {
  const [id, setID] = useState(session);
  const [loaded, setLoaded] = useState(null);
  useEffect(() => {
    const moved = () => setID(session());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    setLoaded(null);
    let gone = false;
    const ask = () => load(id).then((chat) => gone || setLoaded({ id, ...chat }), () => gone || setTimeout(ask, 1000));
    ask();
    return () => { gone = true; };
  }, [id]);
  if (loaded?.id !== id) return <main aria-busy="true" />;
  return <Chat key={id} {...loaded} />;
}

function Chat({ id, messages: initial, streaming, cursor }) {
  const [input, setInput] = useState("");
  const chat = useChat({
    id,
    messages: initial,
    resume: streaming,
    transport,
    sendAutomaticallyWhen: (o) => lastAssistantMessageIsCompleteWithToolCalls(o) || lastAssistantMessageIsCompleteWithApprovalResponses(o),
    onToolCall: ({ toolCall }) => {
      if (toolCall.toolName === "locate") chat.addToolOutput({ tool: "locate", toolCallId: toolCall.toolCallId, output: { city: "Bergen" } });
    },
  });
  const { messages, setMessages, sendMessage, resumeStream, clearError, status } = chat;
  const busy = status === "submitted" || status === "streaming";

  // refresh shows what the server has by now.
  const refresh = useCallback(async () => {
    const now = await load(id);
    clearError();
    setMessages(now.messages);
    if (now.streaming) resumeStream();
  }, [id, setMessages, resumeStream, clearError]);

  // A connection that broke is taken up again, with another process if need be.
  useEffect(() => {
    if (status !== "error") return;
    let timer = 0;
    const again = () => refresh().catch(() => { timer = setTimeout(again, 1000); });
    timer = setTimeout(again, 500);
    return () => clearTimeout(timer);
  }, [status, refresh]);

  // A turn that began elsewhere, in another tab or by a queue, is shown here as well.
  const [latest, setLatest] = useState("");
  useEffect(() => {
    if (latest && !busy && !messages.some((m) => m.metadata?.run_id === latest)) refresh().catch(() => {});
  }, [latest, busy]);
  const begun = messages.length > 0;
  useEffect(() => {
    if (!begun) return;
    const query = new URLSearchParams([["session_id", id], ["after", cursor ?? ""], ["type", "run_start"], ["type", "run_resumed"]]);
    const source = new EventSource(`/sse?${query}`);
    const show = (event) => {
      const { run_id, session_id } = JSON.parse(event.data);
      if (session_id === id) setLatest(run_id);
    };
    source.addEventListener("run_start", show);
    source.addEventListener("run_resumed", show);
    return () => source.close();
  }, [id, cursor, begun]);

  const say = (event) => {
    event.preventDefault();
    if (!input.trim()) return;
    if (busy) post("/start", { session_id: id, on_busy: "steer", input: { text: input } }); // joins the turn under way
    else sendMessage({ text: input });
    setInput("");
  };
  const stop = async () => {
    await post(`/chat/${encodeURIComponent(id)}/interrupt`, { reason: "the user pressed stop" });
  };
  // decide answers with what the AI SDK has no form for, and continues the turn.
  const decide = async (submission) => {
    await post(`/chat/${encodeURIComponent(id)}/submit-tool-result`, submission);
    await sendMessage();
  };

  return (
    <main>
      <header>
        <h1>Concierge</h1>
        <span className="note" role="status">{status}</span>
        <a href={`#${crypto.randomUUID()}`}>New chat</a>
      </header>
      <ol aria-live="polite">
        {messages.map((m) => (
          <li key={m.id} className={m.role}>
            {m.parts.map((part, i) => <Part key={i} part={part} chat={chat} decide={decide} />)}
          </li>
        ))}
      </ol>
      {status === "error" && <p className="note" role="alert">Connecting again…</p>}
      <form className="say" onSubmit={say}>
        <input value={input} onChange={(e) => setInput(e.target.value)} aria-label="Message"
          placeholder={busy ? "Add to what is under way" : "Ask about the weather, where you are, a refund, a table, a story, a drawing"} />
        {busy && <button type="button" onClick={stop}>Stop</button>}
        <button className="yes">Send</button>
      </form>
    </main>
  );
}

function Part({ part, chat, decide }) {
  switch (part.type) {
    case "text": return <div className="text">{part.text}</div>;
    case "file": return part.mediaType.startsWith("image/")
      ? <img src={part.url} alt={part.filename ?? "a picture"} />
      : <a href={part.url} download={part.filename ?? ""}>{part.filename ?? part.mediaType}</a>;
    case "reasoning": return <details><summary>Reasoning</summary>{part.text}</details>;
    case "steering-message": return <div className="joined">{part.parts.map((p) => p.text).join(" ")}</div>;
    case "data-question": return part.data.settled ? null : <Question {...part.data} decide={decide} />;
  }
  if (!part.type.startsWith("tool-")) return null;
  return (
    <section className="card">
      <h2>{part.type.slice(5)}</h2>
      {part.state === "approval-requested"
        ? <Approval part={part} chat={chat} decide={decide} />
        : <pre>{JSON.stringify(part.input)}</pre>}
      {part.output !== undefined && <pre className="output">{JSON.stringify(part.output)}</pre>}
      {part.errorText && <pre className="output">{part.errorText}</pre>}
    </section>
  );
}

// Approval asks whether a tool may run, with what the model made its arguments or with others.
function Approval({ part, chat, decide }) {
  const original = JSON.stringify(part.input, null, 2);
  const [input, setInput] = useState(original);
  const [wrong, setWrong] = useState("");
  const approve = () => {
    if (input === original) return chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
    try {
      const edited = JSON.parse(input);
      decide({ type: "approval-response", approved: true, call_id: part.toolCallId, approval_id: part.approval.id, input: edited }).catch((e) => setWrong(e.message));
    } catch (e) {
      setWrong(e.message);
    }
  };
  return (
    <>
      <textarea aria-label="Arguments" rows={original.split("\n").length} value={input} onChange={(e) => setInput(e.target.value)} />
      {wrong && <p role="alert">{wrong}</p>}
      <button className="yes" onClick={approve}>Approve</button>
      <button onClick={() => chat.addToolApprovalResponse({ id: part.approval.id, approved: false, reason: "the user declined" })}>Deny</button>
    </>
  );
}

// Question asks what a tool wants to know.
function Question({ callId, prompt, decide }) {
  const [answer, setAnswer] = useState("");
  const send = (event) => {
    event.preventDefault();
    decide({ type: "answer", call_id: callId, value: answer });
  };
  return (
    <form className="card" onSubmit={send}>
      <label>{prompt} <input aria-label="Answer" value={answer} onChange={(e) => setAnswer(e.target.value)} /></label>
      <button className="yes">Answer</button>
    </form>
  );
}

createRoot(document.getElementById("root")).render(<App />);
