// Answers to calls that wait for a person.

import { useState } from "./html.js";
import { ask, getExact, of, now } from "./api.js";
import { Num, plain, write } from "./exact.js";
import { changes, drafts, fresh, kind, resolve } from "./schema.js";

// load reads a pending call. Its input and schema are exact JSON, the rest is plain.
export async function load(root, id, options) {
  const call = await getExact("inbox/" + of(root, id), options);
  return whole(call);
}

export const whole = (call) => ({ ...plain({ ...call, input: undefined, schema: undefined }), input: call.input, schema: call.schema });

// known are the client tools that this page can run.
export const known = {
  get_location: (input) => new Promise((done, fail) => {
    navigator.geolocation.getCurrentPosition(
      (at) => done({ latitude: at.coords.latitude, longitude: at.coords.longitude, accuracy_m: at.coords.accuracy }),
      (err) => fail(new Error(err.message)),
      { enableHighAccuracy: !!(input && input.precise), timeout: 10000 });
  }),
  get_time: async () => ({ time: new Date().toString(), zone: Intl.DateTimeFormat().resolvedOptions().timeZone }),
};

const types = { approval: "approval-response", client_tool: "client-tool-result" };

// Lost is an answer that came too late: another one decided the call.
export class Lost extends Error {}

// submissionOf is an answer to a call as the API takes it.
export function submissionOf(call, answer) {
  return { call_id: call.id, type: types[call.kind] || "answer", ...(call.kind === "approval" ? { approval_id: call.approval_id } : {}), ...answer };
}

// submit answers a call, and resumes the session if it waits for nothing more.
export async function submit(call, answer) {
  const receipt = await ask("POST", "submit-tool-result", write({ session_id: call.root_id, ...submissionOf(call, answer) }));
  if (receipt.outcome === "already_completed" || receipt.outcome === "invalid" || receipt.outcome === "unknown_call") {
    const a = receipt.call?.answer;
    throw new Lost(a?.reviewer ? a.reviewer + " " + verdict(a.verdict) + " it " + ago(a.at) + " before you. Your edits are kept." : "The call was decided already. Your edits are kept.");
  }
  if (receipt.outcome === "late") throw new Lost("The time for an answer was over. The model reads yours as a late one.");
  // A worker resumes it otherwise; and a reviewer may not.
  if (receipt.ready) await ask("POST", "resume", { session_id: call.root_id }).catch((err) => { if (![404, 409].includes(err.status)) throw err; });
  return receipt;
}

const verdict = (v) => ({ approved: "approved", denied: "denied" }[v] || "answered");
const ago = (time) => Math.max(1, Math.round((now() - Date.parse(time)) / 1000)) + " s";

// schemaOf is the schema of what a call wants, and begin the value that its form begins with.
export function schemaOf(call) {
  const open = !call.schema || !Object.keys(call.schema).some((k) => k !== "type" && k !== "$schema" && k !== "additionalProperties");
  if (!open) return call.schema;
  if (call.kind === "question" || call.kind === "connect") return { type: "string", title: "Answer" };
  return call.kind === "approval" ? guess(call.input) : call.schema || {};
}

// guess is the schema of arguments without one: their own shape.
function guess(v) {
  if (v instanceof Num) return { type: "number" };
  if (typeof v === "string" || typeof v === "boolean") return { type: typeof v };
  if (v && typeof v === "object" && !Array.isArray(v)) {
    return { type: "object", required: Object.keys(v), properties: Object.fromEntries(Object.entries(v).map(([k, x]) => [k, guess(x)])) };
  }
  return {};
}

export const begin = (call) => (call.kind === "approval" ? call.input : fresh(schemaOf(call), schemaOf(call)));

// useDecision is the state of a form that answers a call. give(call, answer) takes the answer.
export function useDecision(call, give = submit) {
  const [value, set] = useState(() => begin(call));
  const [note, setNote] = useState("");
  const [sending, setSending] = useState(false);
  const bad = drafts(value);
  const edits = call.kind === "approval" ? changes(call.input, value) : [];
  const send = async (answer) => {
    setSending(true);
    try {
      return await give(call, answer);
    } finally {
      setSending(false);
    }
  };
  return {
    value, set, note, setNote, sending, bad, edits, schema: schemaOf(call),
    simple: kind(resolve(schemaOf(call), schemaOf(call))),
    reset: () => set(begin(call)),
    approve: () => send({ approved: true, ...(note ? { reason: note } : {}), ...(edits.length ? { input: value } : {}) }),
    deny: (why) => send({ approved: false, reason: why || "Denied." }),
    answer: (v = value) => send(call.kind === "client_tool" ? { result: v } : { value: v }),
    refuse: (why) => send({ error: why || "No answer is given." }),
  };
}

// question is the heading of a call: what is asked, as a question.
export function question(call) {
  switch (call.kind) {
    case "approval": return "May " + call.agent + " run " + call.tool + "?";
    case "client_tool": return "Run " + call.tool + " for " + call.agent;
    case "budget": return "Raise the budget of " + call.agent + "?";
    case "effect": return "Did " + call.tool + " take effect?";
    case "connect": return call.prompt || "Connect an account";
  }
  return call.prompt || call.tool + " asks";
}

