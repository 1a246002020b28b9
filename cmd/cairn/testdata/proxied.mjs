// Drives chats of each major version of the AI SDK against a server behind a proxy, each as a page that connects again
// after an error. Arguments: the server's address, a token, what to say, and the module of a transport. Prints "begun" when each chat shows the
// beginning of its answer, and at last a JSON object: for each version the statuses at which its connections ended with
// the answer at that time, and what becomes of a response that ends early.
const [url, token, words, module] = process.argv.slice(2);
const { whole } = await import(module);
const headers = { authorization: `Bearer ${token}` };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

class State {
  status = "ready";
  error = undefined;
  constructor(messages) { this.messages = messages; }
  pushMessage = (m) => { this.messages = [...this.messages, m]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (i, m) => { this.messages = [...this.messages.slice(0, i), structuredClone(m), ...this.messages.slice(i + 1)]; };
  snapshot = (x) => structuredClone(x);
}

// open opens a page.
function open(ai, Transport, id, messages, options) {
  class Chat extends ai.AbstractChat {
    constructor() {
      super({ id, state: new State(messages), transport: new Transport({ api: `${url}/chat`, headers, ...options }) });
    }
  }
  return new Chat();
}

const text = (chat) => chat.messages.filter((m) => m.role === "assistant").flatMap((m) => m.parts).filter((p) => p.type === "text").map((p) => p.text).join("");
const settled = async (chat) => {
  while (chat.status === "submitted" || chat.status === "streaming") await wait(5);
};

// follow says something and reads the answer to its end. It only has the connection to know the end by.
async function follow(major, ai, begun) {
  const id = `page-${major}`;
  let status; // of the last response
  const asked = async (...request) => { const response = await fetch(...request); status = response.status; return response; };
  const options = { fetch: asked, body: { assistant: "guide", version: major }, prepareReconnectToStreamRequest: () => ({ api: `${url}/chat/${id}/stream?version=${major}`, headers }) };
  let chat = open(ai, ai.DefaultChatTransport, id, [], options);
  const ends = [];
  chat.sendMessage({ text: words });
  for (let n = 0; !text(chat).includes("said"); n++) {
    if (chat.status === "error") throw chat.error;
    await wait(5);
  }
  begun();
  for (;;) {
    await settled(chat);
    ends.push({ status: chat.status, text: text(chat) });
    if (chat.status === "ready") return ends;
    for (;;) { // the history, then the stream of the turn under way
      await wait(100);
      const history = await fetch(`${url}/chat/${id}?version=${major}`, { headers }).then((r) => r.ok ? r.json() : null, () => null);
      if (!history) continue;
      chat = open(ai, ai.DefaultChatTransport, id, history.messages, options);
      if (history.streaming) await chat.resumeStream();
      if (history.streaming && status === 204) continue; // the turn has ended since
      break;
    }
  }
}

// cutShort returns the status after a response that ends in the middle, and is closed as if it were whole.
async function cutShort(ai, end) {
  const body = ["start", "start-step", "text-start", "text-delta", ...end].map((type) => `data: ${JSON.stringify({ type, id: "t", ...(type === "text-delta" && { delta: "Once" }) })}\n\n`).join("");
  const chat = open(ai, whole(ai.DefaultChatTransport), "cut", [], { fetch: async () => new Response(body, { headers: { "content-type": "text/event-stream" } }) });
  await chat.sendMessage({ text: "hi" });
  await settled(chat);
  return chat.status;
}

let waiting = 3;
const begun = () => { if (--waiting === 0) console.log("begun"); };
const found = {};
await Promise.all([5, 6, 7].map(async (major) => {
  const ai = await import(`ai${major}`);
  found[major] = { ends: await follow(major, ai, begun), cut: await cutShort(ai, []), whole: await cutShort(ai, ["text-end", "finish-step", "finish"]) };
}));
console.log(JSON.stringify(found));
process.exit(0);
