// A chat backend as the documentation of the AI SDK builds one, for each major version of it below /5, /6 and /7: streamText
// with a scripted model, toUIMessageStreamResponse, the messages saved at the end of each answer, and a stop route. It
// prints its address.
import http from "node:http";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";

const words = (text) => [
  { type: "text-start", id: "t" },
  ...text.split(/(?<= )/).map((delta) => ({ type: "text-delta", id: "t", delta })),
  { type: "text-end", id: "t" },
];
const call = (toolName, input) => [{ type: "tool-call", toolCallId: `call-${++calls}`, toolName, input: JSON.stringify(input) }];
let calls = 0;

// reply returns what the model says to the last message of its prompt. A function in the list is called in its place.
function reply(prompt, gate) {
  const last = prompt.at(-1);
  if (last.role === "tool") return words("That is that.");
  const said = last.content.map((p) => p.text ?? "").join("");
  if (said.includes("where")) return call("locate", {});
  if (said.includes("fail")) return [...words("Once upon a ").slice(0, -1), { type: "error", error: new Error("overloaded") }];
  if (said.includes("broken")) return call("broken", {});
  if (said.includes("cite")) return [...words("Grass is green."), { type: "source", sourceType: "url", id: "s", url: "https://a.example/1", title: "A page" }];
  if (said.includes("draw")) return [...words("Here it is."), { type: "file", mediaType: "image/png", data: btoa("a tree") }];
  if (said.includes("report")) return call("report", {});
  if (said.includes("look")) return call("look", {});
  if (said.includes("hang")) return call("hang", {});
  if (said.includes("pay twice")) return [...call("pay", { cents: 100 }), ...call("pay", { cents: 100 })];
  if (said.includes("pay")) return [...words("Let me pay. "), ...call("pay", { cents: 100 })];
  if (said.includes("slowly")) {
    return [
      { type: "reasoning-start", id: "r" }, { type: "reasoning-delta", id: "r", delta: "Hm." }, { type: "reasoning-end", id: "r" },
      { type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: "Once upon a time." }, () => gate(said),
      { type: "text-delta", id: "t", delta: " The end." }, { type: "text-end", id: "t" },
    ];
  }
  if (said.includes("long")) return [...words("Once upon a"), "length"];
  return words("Hello.");
}

function model(ai, mock, major, gate) {
  const usage = major === 5
    ? { inputTokens: 7, outputTokens: 3, totalTokens: 10 }
    : { inputTokens: { total: 7, noCache: 7 }, outputTokens: { total: 3, text: 3 } };
  return new mock({
    doStream: async ({ prompt, abortSignal }) => {
      const list = reply(prompt, gate);
      const stopped = typeof list.at(-1) === "string" ? list.pop() : list.some((c) => c.type === "tool-call") ? "tool-calls" : "stop";
      const finishReason = major === 5 ? stopped : { unified: stopped, raw: stopped };
      async function* chunks() {
        yield { type: "stream-start", warnings: [] };
        for (const c of list) {
          if (typeof c === "function") {
            await Promise.race([c(), new Promise((stop) => abortSignal?.addEventListener("abort", stop))]);
            abortSignal?.throwIfAborted();
          } else yield c;
        }
        yield { type: "finish", finishReason, usage };
      }
      return { stream: ReadableStream.from(chunks()) };
    },
  });
}

function deferred() {
  const d = {};
  d.promise = new Promise((resolve) => (d.resolve = resolve));
  return d;
}

async function backend(major) {
  const ai = await import(`ai${major}`);
  const test = await import(`ai${major}/test`);
  const mock = major === 5 ? test.MockLanguageModelV2 : test.MockLanguageModelV3;
  const saved = new Map(); // messages by chat
  const active = new Map(); // {abort, chunks, more} by chat
  const gates = new Map(); // by the message whose answer pauses
  const opened = (name) => gates.get(name) ?? gates.set(name, deferred()).get(name);
  const gate = (name) => opened(name).promise;
  const input = ai.jsonSchema({ type: "object" });
  const tools = (writer) => ({
    locate: ai.tool({ inputSchema: input }),
    look: ai.tool({ inputSchema: input, execute: () => "a tree" }),
    broken: ai.tool({ inputSchema: input, execute: () => { throw new Error("out of order"); } }),
    hang: ai.tool({ inputSchema: input, execute: (_, { abortSignal }) => new Promise((_, stop) => abortSignal.addEventListener("abort", () => stop(abortSignal.reason))) }),
    report: ai.tool({
      inputSchema: input,
      execute: () => {
        writer.write({ type: "data-note", data: "a note" });
        writer.write({ type: "data-progress", id: "p", data: { done: 1 } });
        writer.write({ type: "data-progress", id: "p", data: { done: 2 } });
        return "reported";
      },
    }),
    ...(major > 5 && { pay: ai.tool({ inputSchema: input, needsApproval: true, execute: ({ cents }) => `paid ${cents}` }) }),
  });
  const post = async ({ id, messages }) => {
    const turn = { abort: new AbortController(), chunks: [], more: deferred(), over: false };
    active.set(id, turn);
    saved.set(id, messages);
    const prompt = await ai.convertToModelMessages(messages);
    const stream = ai.createUIMessageStream({
      originalMessages: messages,
      onError: () => "the turn failed",
      execute: ({ writer }) => {
        const result = ai.streamText({
          model: model(ai, mock, major, gate),
          messages: prompt,
          tools: tools(writer),
          stopWhen: (ai.isStepCount ?? ai.stepCountIs)(5),
          maxRetries: 0,
          onError: () => {},
          abortSignal: turn.abort.signal,
        });
        writer.merge(result.toUIMessageStream({
          originalMessages: messages,
          sendSources: true,
          onError: () => "the turn failed",
          messageMetadata: ({ part }) => part.type === "finish"
            ? { usage: { input_tokens: part.totalUsage.inputTokens, output_tokens: part.totalUsage.outputTokens } } : undefined,
        }));
      },
      onFinish: (end) => { saved.set(id, end.messages); },
    });
    return ai.createUIMessageStreamResponse({
      stream,
      consumeSseStream: async ({ stream }) => {
        for await (const chunk of stream) {
          turn.chunks.push(chunk);
          turn.more.resolve();
          turn.more = deferred();
        }
        turn.over = true;
        turn.more.resolve();
        if (active.get(id) === turn) active.delete(id);
      },
    });
  };
  async function* replay(turn) {
    for (let n = 0; ; ) {
      if (n < turn.chunks.length) yield turn.chunks[n++];
      else if (turn.over) return;
      else await turn.more.promise;
    }
  }
  return { saved, active, post, replay, release: (name) => opened(name).resolve() };
}

const backends = { 5: await backend(5), 6: await backend(6), 7: await backend(7) };

async function answer(req, res) {
  const { pathname, searchParams } = new URL(req.url, "http://localhost");
  const [, major, area, id, verb] = pathname.split("/").map(decodeURIComponent);
  const b = backends[major];
  let out;
  if (area === "release") {
    b.release(searchParams.get("what"));
    out = new Response(null);
  } else if (req.method === "POST" && id === undefined) out = await b.post(JSON.parse(await text(req)));
  else if (verb === "interrupt") {
    b.active.get(id)?.abort.abort();
    out = new Response(null);
  } else if (verb === "stream") {
    const turn = b.active.get(id);
    out = turn
      ? new Response(ReadableStream.from(b.replay(turn)).pipeThrough(new TextEncoderStream()), { headers: { "content-type": "text/event-stream" } })
      : new Response(null, { status: 204 });
  } else out = Response.json({ messages: b.saved.get(id) ?? [] });
  res.writeHead(out.status, Object.fromEntries(out.headers));
  if (out.body) Readable.fromWeb(out.body).pipe(res);
  else res.end();
}

const server = http.createServer((req, res) => {
  answer(req, res).catch((e) => {
    console.error(e);
    res.writeHead(500).end(String(e));
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
