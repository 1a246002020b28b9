// The page that compares a session with a fork of it: facts on top, what both have in common folded, the rest side by side.

import { html, useEffect, useLoad, useRef, useSignal } from "./html.js";
import { get, offered, of } from "./api.js";
import { href } from "./router.js";
import { Icon } from "./icons.js";
import { Failure, Loading, Status, minute } from "./parts.js";
import { Item } from "./message.js";
import { align, words } from "./align.js";
import { sentence, statusOf } from "./reason.js";
import { useLive } from "./session.js";
import { useKeys } from "./keys.js";
import { cost, count, many, safe, span, title } from "./format.js";

export function Compare({ id, branch }) {
  const left = useLive(id, { whole: true }), right = useLive(branch, { whole: true });
  useSignal(minute);
  const box = useRef();
  useEffect(() => { document.title = "Compare · Cairn"; }, []);
  const next = () => {
    const all = [...(box.current?.querySelectorAll(".differs") || [])];
    const to = all[all.indexOf(document.activeElement) + 1] || all[0];
    to?.focus();
    to?.scrollIntoView({ block: "center" });
  };
  useKeys({ n: next });
  const failed = [left, right].find((l) => l.error);
  if (failed) return html`<${Failure} what="The comparison did not load." error=${failed.error} again=${() => failed.open()} />`;
  if (![left, right].every((l) => l.t && l.status)) return html`<${Loading} lines=${6} />`;
  const [a, b] = [left, right].map(shownOf);
  const { same, rows } = align(a, b);
  const n = rows.filter((r) => r.differs).length;
  return html`<header class="head"><div class="crumb"><a class="t3 only-l" href=${href("sessions")}>Sessions</a><span class="t3 only-l">/</span><h1 class="clip" dir="auto">${title(left.status.session)}</h1></div>
      <div class="tools"><button type="button" class="btn" disabled=${!n} onClick=${next}>Next difference <kbd class="only-l">N</kbd></button></div></header>
    <${Facts} left=${left} right=${right} n=${n} /><${Instructions} left=${left} right=${right} />
    <div class="cmp" ref=${box} tabindex="0" role="region" aria-label="Comparison">
      <details class="same"><summary><${Icon} name="right" />The same up to here: ${many(same, "item")}</summary><div class="conv">${a.slice(0, same).map((item, i) => html`<${Item} key=${i} item=${item} />`)}</div></details>
      ${rows.map((r, i) => html`<div key=${i} role="group" class=${"pair" + (r.differs ? " differs" : "")} tabindex=${r.differs ? "-1" : undefined} aria-label=${r.differs ? "Difference" : "The same"}>
        <${Side} item=${r.left} name="Original" /><${Side} item=${r.right} name="Fork" /></div>`)}
      ${!rows.length && html`<p class="empty t3">Nothing differs so far.</p>`}</div>`;
}

// shownOf are the items of a session, with the calls that wait.
function shownOf(live) {
  const waiting = new Set(live.calls.map((c) => c.tool_call_id || c.id));
  return live.t.items.map((item) => (item.kind === "tool" && item.output === undefined && waiting.has(item.call) ? { ...item, state: "waiting" } : item));
}

const Side = ({ item, name }) => html`<div class="side"><p class="lab only-s">${name}</p>${item ? html`<${Item} item=${item} />` : html`<p class="t3">–</p>`}</div>`;

// factsOf are the facts about one side. Those of the original count the runs from the point of the fork on.
function factsOf(live, from) {
  const runs = live.runs.filter((r, i, all) => (all[i + 1]?.first_message ?? Infinity) > from);
  const sum = { cost_nanos: 0, priced_calls: 0, input_tokens: 0, output_tokens: 0, seconds: 0 };
  for (const r of runs) {
    for (const key of ["cost_nanos", "priced_calls", "input_tokens", "output_tokens"]) sum[key] += r.usage?.[key] || 0;
    if (r.ended_at) sum.seconds += (Date.parse(r.ended_at) - Date.parse(r.started_at)) / 1000;
  }
  return { ...sum, model: runs.at(-1)?.model || "the assistant’s own", steps: runs.reduce((n, r) => n + (r.steps || 0), 0) };
}

function Facts({ left, right, n }) {
  const from = right.status.session.branch?.messages || 0;
  const a = factsOf(left, from), b = factsOf(right, 0);
  const head = (live, name) => html`<th scope="col"><a class="link" href=${href(["s", live.id])}>${name}</a></th>`;
  const status = (live) => {
    const s = live.status.situation, { bold, rest } = sentence(s, "");
    return html`<td><${Status} status=${statusOf(s, live.status.session)} /> <span class="t2" dir="auto">${bold} ${rest}</span></td>`;
  };
  const line = (name, of) => html`<tr><th scope="row">${name}</th><td>${of(a)}</td><td>${of(b)}</td></tr>`;
  return html`<div class="verdict"><table class="t"><thead><tr><th scope="col">${many(n, "difference")}</th>${head(left, "Original")}${head(right, "Fork")}</tr></thead><tbody>
    <tr><th scope="row">Status</th>${status(left)}${status(right)}</tr>
    ${line("Model", (f) => safe(f.model))}${line("Cost since the point", cost)}${line("Tokens in, out", (f) => count(f.input_tokens) + ", " + count(f.output_tokens))}${line("Work", (f) => span(f.seconds) + ", " + many(f.steps, "step"))}</tbody></table></div>`;
}

// promptOf is the system prompt of a session's last reply, for operators; null for others.
async function promptOf(live, signal) {
  if (live.status.session.branch?.instructions) return live.status.session.branch.instructions;
  const { total } = await get("sessions/" + of(live.id) + "/messages", { limit: 1 }, { signal });
  for (let i = live.status.session.message_count - 1; i >= Math.max(0, total - 20); i--) {
    const request = await offered("sessions/" + of(live.id) + "/messages/" + i + "/request", {}, { signal }).catch(() => null);
    if (request) return String(request.instructions ?? "");
  }
  return null;
}

function Instructions({ left, right }) {
  const own = right.status.session.branch?.instructions;
  const { value } = useLoad(async (signal) => (own ? { before: await promptOf(left, signal) ?? "" } : null), [own, left.id]);
  if (!own || !value || value.before === own) return null;
  return html`<p class="prompts" dir="auto"><span class="lab">Instructions</span> ${words(value.before, own).map((p) => (p.is === "same" ? safe(p.text) : html`<${p.is} class=${p.is}>${safe(p.text)}</${p.is}>`))}</p>`;
}
