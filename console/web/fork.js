// The form that forks a session: it continues from a point with another model, other instructions or another answer.

import { html, useLoad, useRef, useState } from "./html.js";
import { ask, get, may, of } from "./api.js";
import { load, question, submissionOf, useDecision } from "./decision.js";
import { exact, write } from "./exact.js";
import { Form } from "./form.js";
import { go, href } from "./router.js";
import { Dialog, Failure, Loading, toast } from "./parts.js";
import { runsOf } from "./transcript.js";
import { brief, safe } from "./format.js";

// most is how many calls the form offers.
const most = 200;

// pointsOf are the points from which a session can continue: before the first step of each turn and after its other steps.
function pointsOf(live, checkpoints) {
  const points = [], known = runsOf(live.runs);
  for (const { key, number, continues } of live.rows()) {
    const all = known.get(key);
    if (!all || continues) continue;
    const ids = new Set(all.map((r) => r.id));
    points.push({ turn: number, name: "Turn " + number + ", before its first step", at: { messages: all[0].first_message + 1 } });
    const own = checkpoints.filter((cp) => ids.has(cp.run_id));
    if (all.at(-1).status === "completed") own.pop();
    own.forEach((cp, k) => points.push({ turn: number, name: "Turn " + number + ", after step " + (k + 1), at: { checkpoint_id: cp.id } }));
  }
  return points;
}

// answered are the kinds of calls that can have another answer in a fork.
const answered = ["approval", "question", "client_tool", "connect"];

// callsOf are the calls of a session that wait, or waited, for an answer, newest first, and those of tools that have a result.
async function callsOf(live, signal) {
  const calls = [];
  let cursor;
  do {
    const page = await get("inbox", { session_id: live.status.session.root_id, status: "open,answered,settled", limit: 100, cursor }, { signal });
    calls.push(...page.items.filter((c) => c.session_id === live.id && answered.includes(c.kind)));
    cursor = page.next;
  } while (cursor && calls.length < most);
  const asked = new Set(calls.map((c) => c.tool_call_id || c.id));
  const results = live.t.items.filter((i) => i.kind === "tool" && i.output !== undefined && !asked.has(i.call));
  return [...calls.reverse().map((c) => ({ id: c.id, root: c.root_id, name: question(c) })), ...results.map((i) => ({ id: i.call, name: "Result of " + i.tool, input: i.input }))];
}

// Answer is another answer to a call, with the fields that the inbox has for it. take is a reference to a function that returns
// the answer.
function Answer({ call, take }) {
  const d = useDecision(call, (_, answer) => answer);
  const [refused, refuse] = useState(false);
  const approval = call.kind === "approval";
  take.current = () => {
    if (refused) return approval ? d.deny(d.note) : d.refuse(d.note);
    if (d.bad.length || !approval && d.value === undefined) throw new Error(d.bad.length ? (d.bad[0][0] || "The value") + ": " + d.bad[0][1] : "Give an answer.");
    return approval ? d.approve() : d.answer();
  };
  return html`<label>Decision<select class="field" value=${refused ? "no" : "yes"} onChange=${(ev) => refuse(ev.target.value === "no")}><option value="yes">${approval ? "Approve" : "Answer"}</option><option value="no">${approval ? "Deny" : "Refuse to answer"}</option></select></label>
    ${call.prompt && html`<p class="t2" dir="auto">${safe(call.prompt)}</p>`}
    ${!refused && html`<${Form} schema=${d.schema} value=${d.value} proposed=${approval ? call.input : undefined} onChange=${d.set} disabled=${approval && !!call.no_edits} />`}
    ${(approval || refused) && html`<label>Reason<input class="field" dir="auto" value=${d.note} onInput=${(ev) => d.setNote(ev.target.value)} /></label>`}`;
}

// Fork is the form. turn is the turn that it begins with, by default the last one.
export function Fork({ live, turn, close }) {
  const row = live.status.session, admin = may("admin");
  const { value, error, again } = useLoad(async (signal) => {
    const [agents, calls, checkpoints] = await Promise.all([get("agents", { limit: 100 }, { signal }), callsOf(live, signal), get("sessions/" + of(live.id) + "/checkpoints", { limit: 100, newest: true }, { signal })]);
    return { models: agents.items.find((a) => a.name === row.agent)?.models || [], calls, points: pointsOf(live, checkpoints.items.reverse()) };
  }, [live.id]);
  const [draft, set] = useState({ model: "", instructions: row.branch?.instructions || "", call: null, text: "" });
  const [asked, setAsked] = useState(null); // the call that has another answer
  const take = useRef();
  const [point, setPoint] = useState(null);
  const [wrong, fail] = useState(null);
  const [sending, send] = useState(false);
  const put = (values) => set((was) => ({ ...was, ...values }));
  if (!value) return html`<${Dialog} title="Fork the session" close=${close}>${error ? html`<${Failure} what="The form did not load." error=${error} again=${again} />` : html`<${Loading} />`}<//>`;
  const at = point ?? Math.max(0, turn ? value.points.findIndex((p) => p.turn === turn) : value.points.findLastIndex((p) => p.at.messages));
  const pick = async (i) => {
    const call = value.calls[i] || null;
    put({ call, text: "" });
    setAsked(null);
    fail(null);
    if (call?.root) setAsked(await load(call.root, call.id).catch((err) => { fail(err); return null; }));
  };
  const submit = async (ev) => {
    ev.preventDefault();
    const body = {};
    if (draft.model) body.model = draft.model === "own" ? "" : draft.model.slice(2);
    if (admin && draft.instructions !== (row.branch?.instructions || "")) body.instructions = draft.instructions;
    if (!draft.call) Object.assign(body, value.points[at]?.at);
    else if (!draft.call.root) {
      try {
        body.result = { call_id: draft.call.id, output: exact(draft.text) };
      } catch {
        body.result = { call_id: draft.call.id, output: draft.text };
      }
    }
    send(true);
    try {
      if (draft.call?.root) body.answer = submissionOf(asked, await take.current());
      const made = await ask("POST", "sessions/" + of(live.id) + "/fork", write(body));
      toast("The fork has begun.");
      close();
      go(href(["s", live.id, "compare", made.id]));
    } catch (err) {
      fail(err);
      send(false);
    }
  };
  return html`<${Dialog} title="Fork the session" close=${close}><form class="forkform" onSubmit=${submit}>
    <p class="t2">A copy continues from the point with what you change. This session stays as it is. Calls with effects ask first in the copy.</p>
    <label>From<select class="field" value=${String(at)} disabled=${!!draft.call} onChange=${(ev) => setPoint(Number(ev.target.value))}>${value.points.map((p, i) => html`<option value=${String(i)}>${p.name}</option>`)}</select></label>
    <label>Model<select class="field" value=${draft.model} onChange=${(ev) => put({ model: ev.target.value })}><option value="">As there</option><option value="own">The assistant’s own</option>${value.models.map((m) => html`<option value=${"m:" + m}>${safe(m)}</option>`)}</select></label>
    ${admin && html`<label>Instructions<textarea class="field" rows="4" dir="auto" placeholder="Those of the assistant" value=${draft.instructions} onInput=${(ev) => put({ instructions: ev.target.value })}></textarea></label>`}
    ${value.calls.length > 0 && html`<label>Another answer<select class="field" value=${String(value.calls.indexOf(draft.call))} onChange=${(ev) => pick(Number(ev.target.value))}><option value="-1">None</option>${value.calls.map((c, i) => html`<option value=${String(i)}>${safe(c.name)} ${c.input !== undefined && brief(c.input, 40)}</option>`)}</select></label>`}
    ${asked && html`<${Answer} key=${asked.id} call=${asked} take=${take} />`}
    ${draft.call && !draft.call.root && (admin ? html`<label>Result, as JSON or text<textarea class="field" rows="3" dir="auto" value=${draft.text} onInput=${(ev) => put({ text: ev.target.value })}></textarea></label>` : html`<p class="t2">Only administrators may change the result of a call.</p>`)}
    ${wrong && html`<p class="bad" role="alert">${safe(wrong.message)}</p>`}
    <div class="row end"><button type="button" class="btn" onClick=${close}>Cancel</button><button class="btn pri" disabled=${sending || draft.call && (draft.call.root ? !asked : !admin)}>Fork</button></div></form><//>`;
}
