// Drives LangGraph's PostgreSQL saver for the benchmark: a request per line on standard input, an answer per line on
// standard output. It ends with its input.
import { createInterface } from "node:readline";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";

let conversation, toolName, durability, pool, graph;

// runs are the invocations under way, by thread.
const runs = new Map();

async function setup(request) {
  ({ conversation, tool: toolName, durability } = request);
  pool = new pg.Pool({ host: request.host, database: request.database, user: "postgres", max: request.writers });
  const saver = new PostgresSaver(pool);
  await saver.setup();
  // Each field of the state is a channel, so that a checkpoint stores only the fields that have changed.
  const spec = { ...MessagesAnnotation.spec, turn: Annotation() };
  for (const name of Object.keys(conversation.state)) spec[name] = Annotation();
  graph = new StateGraph(Annotation.Root(spec))
    .addNode("step", step)
    .addEdge(START, "step")
    .addConditionalEdges("step", next, ["step", END])
    .compile({ checkpointer: saver });
  return {};
}

// step is a whole step in one node, so that it costs one checkpoint: the reply, the tool's result, the change of the state.
async function step(state, { configurable: { thread_id: id } }) {
  const run = runs.get(id);
  if (run.began === undefined) {
    await run.race.start();
    run.began = performance.now();
  }
  run.done++;
  const n = state.messages.length / 2 - 1;
  return { messages: exchange(n), [field(n)]: conversation.exchanges[n % conversation.exchanges.length].value };
}

function next(_state, { configurable: { thread_id: id } }) {
  const run = runs.get(id);
  return run && run.done < run.steps && performance.now() < run.race.ends ? "step" : END;
}

// Race has several writers begin their first step at the same time.
class Race {
  constructor(writers, milliseconds) {
    this.missing = writers;
    this.milliseconds = milliseconds;
    this.started = new Promise((resolve) => (this.go = resolve));
  }

  start() {
    this.missing--;
    if (this.missing === 0) {
      this.ends = performance.now() + this.milliseconds;
      this.go();
    }
    return this.started;
  }
}

const config = (id) => ({ configurable: { thread_id: id } });
const names = () => Object.keys(conversation.state).sort();
const field = (n) => names()[n % names().length];
const call = (n) => "call-" + String(n).padStart(6, "0");

function exchange(n) {
  const e = conversation.exchanges[n % conversation.exchanges.length];
  return [
    new AIMessage({ content: e.text, tool_calls: [{ id: call(n), name: toolName, args: e.input, type: "tool_call" }] }),
    new ToolMessage({ content: e.result, tool_call_id: call(n), name: toolName }),
  ];
}

async function open({ id, messages }) {
  const values = { messages: [new HumanMessage(conversation.question), new AIMessage(conversation.answer)], ...conversation.state };
  for (let n = 0; n < messages / 2 - 1; n++) {
    values.messages.push(...exchange(n));
    values[field(n)] = conversation.exchanges[n % conversation.exchanges.length].value;
  }
  await graph.updateState(config(id), values, "step");
  return {};
}

// drive answers what each writer did: the steps of each of its sessions, and how long these took. The time begins with the
// first step of a session, when the graph has read it, and ends when its last checkpoint is on the server.
async function drive({ lanes, milliseconds }) {
  const race = new Race(lanes.length, milliseconds);
  return { lanes: await Promise.all(lanes.map((lane) => driveLane(lane, race))) };
}

async function driveLane(lane, race) {
  const out = { steps: [], seconds: 0 };
  for (const { id, steps } of lane) {
    if (performance.now() >= race.ends) break;
    const run = { race: out.steps.length === 0 ? race : { start: () => undefined, ends: race.ends }, steps, done: 0 };
    runs.set(id, run);
    try {
      await graph.invoke({ turn: out.steps.length }, { ...config(id), durability, recursionLimit: steps + 10 });
    } finally {
      runs.delete(id);
    }
    out.seconds += (performance.now() - run.began) / 1000;
    out.steps.push(run.done);
  }
  return out;
}

async function read({ id }) {
  const { values } = await graph.getState(config(id));
  const messages = values.messages.map((m) => {
    switch (m.getType()) {
      case "human":
        return { role: "user", text: m.content };
      case "tool":
        return { role: "tool", call: m.tool_call_id, result: m.content };
      default:
        return { role: "assistant", text: m.content, call: m.tool_calls[0]?.id ?? "", input: m.tool_calls[0]?.args ?? {} };
    }
  });
  return { messages, state: Object.fromEntries(names().map((name) => [name, values[name]])) };
}

const operations = { setup, open, drive, read };

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await operations[request.op](request);
  } catch (err) {
    answer = { error: String(err?.stack ?? err) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await pool?.end();
