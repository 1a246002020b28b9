// Drives chats of the AI SDK against the server, as pages would, and prints what they show. Arguments: the major version of
// the client, the server's address, a token, and a JSON list of visits {chat, todo}, which are made one after the other.
const [major, url, token, visits] = process.argv.slice(2);
const ai = await import(`ai${major}`);
const headers = { authorization: `Bearer ${token}` };

// The state that a framework's binding of the client keeps.
class State {
  status = "ready";
  error = undefined;
  constructor(messages) { this.messages = messages; }
  pushMessage = (m) => { this.messages = [...this.messages, m]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (i, m) => { this.messages = [...this.messages.slice(0, i), structuredClone(m), ...this.messages.slice(i + 1)]; };
  snapshot = (x) => structuredClone(x);
}

class Chat extends ai.AbstractChat {
  constructor({ messages, ...options }) { super({ ...options, state: new State(messages) }); }
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// ask makes a request of the page's own. As a browser does, it repeats a request on a connection that was kept and is closed.
const ask = (path, init) => fetch(url + path, init).catch((err) => {
  if (err.cause?.code !== "UND_ERR_SOCKET") throw err;
  return fetch(url + path, init);
});

// visit opens a page, does with it what is to be done, and returns what it shows.
async function visit(id, todo) {
  const seen = { errors: [], posts: 0, toolRuns: 0, ends: [] };
  const open = (messages) => {
    const chat = new Chat({
      id,
      messages,
      transport: new ai.DefaultChatTransport({
        api: `${url}/chat`,
        headers,
        body: { assistant: "bot", version: Number(major) },
        fetch: (...args) => { if (args[1]?.method === "POST") seen.posts++; return fetch(...args); },
      }),
      sendAutomaticallyWhen: (o) =>
        ai.lastAssistantMessageIsCompleteWithToolCalls(o) ||
        (ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(o) ?? false),
      onToolCall: ({ toolCall }) => {
        if (toolCall.toolName !== "locate") return;
        seen.toolRuns++;
        const answer = { tool: "locate", toolCallId: toolCall.toolCallId, output: { city: "Oslo" } };
        chat.addToolOutput ? chat.addToolOutput(answer) : chat.addToolResult(answer);
      },
      onError: (e) => { seen.errors.push(String(e)); },
      onFinish: ({ finishReason, isAbort, isDisconnect, isError }) => {
        seen.ends.push(Object.entries({ [finishReason ?? "no reason"]: true, isAbort, isDisconnect, isError }).filter(([, is]) => is).map(([name]) => name).join(" "));
      },
    });
    return chat;
  };
  let chat = open([]), worker = false;
  const idle = async () => {
    for (let quiet = 0; quiet < 5; ) {
      await wait(5);
      quiet = chat.status === "ready" || chat.status === "error" ? quiet + 1 : 0;
    }
  };
  const approval = () => chat.lastMessage.parts.find((p) => p.state === "approval-requested")?.approval.id;
  for (const what of todo) {
    const [verb, arg] = what.split("=");
    switch (verb) {
      case "say": await chat.sendMessage({ text: arg }); break;
      case "answer": { // of a question, for which the client has no form
        const { callId } = chat.lastMessage.parts.find((p) => p.type === "data-question").data;
        const body = JSON.stringify({ type: "answer", call_id: callId, value: arg });
        await ask(`/chat/${id}/submit-tool-result`, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
        if (worker) { // resumes the turn, and is done with it before the page hears of it
          await ask(`/resume?session_id=${encodeURIComponent(id)}`, { method: "POST", headers });
          await wait(100);
        }
        await chat.sendMessage();
        break;
      }
      case "worker": worker = true; break;
      case "regenerate": await chat.regenerate(); break;
      case "again": { // the last message is posted once more, and the answer is read anew
        const messages = chat.messages.slice(0, chat.messages.findLastIndex((m) => m.role === "user") + 1);
        const stream = await chat.transport.sendMessages({ chatId: id, messages, trigger: "submit-message" });
        let answer;
        for await (const m of ai.readUIMessageStream({ stream })) answer = m;
        chat.messages = [...messages, answer];
        break;
      }
      case "edit": await chat.sendMessage({ text: arg, messageId: chat.messages[0].id }); break; // the first one
      case "send": { // a message with metadata: text, a data part, or both
        const parts = arg.split("+").map((p) => (p === "data" ? { type: "data-choice", id: "c", data: { color: "red" } } : { type: "text", text: p }));
        await chat.sendMessage({ parts, metadata: { from: "the page" } });
        break;
      }
      case "resume": await chat.resumeStream(); break;
      case "halt": // the page's own stop, then the server's
        await chat.stop();
        await ask(`/chat/${id}/interrupt`, { method: "POST", headers });
        break;
      case "edited": { // approves with another input
        const { toolCallId, approval } = chat.lastMessage.parts.find((p) => p.state === "approval-requested");
        const body = JSON.stringify({ type: "approval-response", call_id: toolCallId, approval_id: approval.id, approved: true, input: JSON.parse(arg) });
        await ask(`/chat/${id}/submit-tool-result`, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
        await chat.addToolApprovalResponse({ id: approval.id, approved: true }); // the first decision stands
        break;
      }
      case "accept": { // answers the data part that stands for an approval on version 5
        const { callId, approvalId } = chat.lastMessage.parts.find((p) => p.type === "data-approval").data;
        const body = JSON.stringify({ type: "approval-response", call_id: callId, approval_id: approvalId, approved: true });
        await ask(`/chat/${id}/submit-tool-result`, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
        await chat.sendMessage();
        break;
      }
      case "ask": chat.sendMessage({ text: arg }); break; // without waiting for the answer
      case "approve": await chat.addToolApprovalResponse({ id: approval(), approved: true, ...(arg && { reason: arg }) }); break;
      case "deny": await chat.addToolApprovalResponse({ id: approval(), approved: false, reason: arg }); break;
      case "until": // the page shows a text
        for (let n = 0; !JSON.stringify(chat.messages).includes(arg); n++) {
          if (n > 5000) throw new Error(`${id}: the page never shows ${arg}`);
          await wait(2);
        }
        break;
      case "reload": { // first the history, then the stream of the turn under way
        const history = await (await ask(`/chat/${id}?version=${major}`, { headers })).json();
        chat = open(history.messages ?? []);
        chat.resumeStream();
        break;
      }
      case "interrupt": await ask(`/chat/${id}/interrupt`, { method: "POST", headers }); break;
      case "release": await ask(`/release?what=${encodeURIComponent(arg)}`, { headers }); break;
      case "steer": {
        const body = JSON.stringify({ session_id: id, on_busy: "steer", input: { text: arg } });
        await ask(`/start`, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body });
        break;
      }
      case "trim": // when the turn has ended, which a call's answer does not wait for
        await idle();
        await ask(`/trim?id=${encodeURIComponent(id)}&runs=${arg}`, { headers });
        break;
      case "idle": await idle(); break;
      default: throw new Error(`no such verb: ${verb}`);
    }
  }
  await idle();
  return { ...seen, status: chat.status, messages: chat.messages };
}

const pages = [];
for (const { chat, todo } of JSON.parse(visits)) pages.push(await visit(chat, todo));
process.stdout.write(JSON.stringify(pages), () => process.exit(0));
