// The timeline beside a conversation: a waterfall of turns, steps and calls, and an inspector of the selected row.

import { html, useRef, useState } from "./html.js";
import { now } from "./api.js";
import { query, route } from "./router.js";
import { Icon } from "./icons.js";
import { Values } from "./card.js";
import { Copy, Time } from "./parts.js";
import { flat, scale } from "./timeline.js";
import { brief, cost, dollars, safe, short, span } from "./format.js";

const width = 128;

const icons = { turn: "right", step: "model", tool: "tool", wait: "wait", child: "child", effect: "swap", retry: "retry", more: "right" };

const took = (r) => ((r.to || now()) - r.from) / 1000;

const working = (r) => (r.spans ? r.spans.reduce((s, p) => s + ((p.to || now()) - p.from), 0) / 1000 : took(r));

function label(r, number, model) {
  switch (r.kind) {
    case "turn": return html`Turn ${number}${r.name && html` · <span dir="auto">${safe(r.name)}</span>`}`;
    case "step": return html`${r.name}${model && " · " + safe(model)}${r.void ? ", discarded" : r.state === "running" ? ", running" : r.state === "failed" ? ", failed" : r.attempt > 1 ? ", attempt " + r.attempt : ""}`;
    case "wait": return html`<code>${safe(r.name)}</code> ${r.state === "waiting" ? "waits for" : "waited for"} an ${r.what}`;
    case "child": return html`<code>${safe(r.name)}</code> sub-agent ${safe(r.agent)}`;
    case "retry": return html`${r.name}${r.error?.code && " (" + safe(r.error.code.replaceAll("_", " ")) + ")"}`;
    case "effect": return html`Effect ${r.name}`;
    case "more": return html`${r.name} bookkeeping ${r.name === 1 ? "event" : "events"}`;
  }
  return html`<code>${safe(r.name)}</code> ${brief(r.input, 40)}${r.attempts > 1 ? ", " + r.attempts + " attempts" : ""}${r.cached ? ", cached" : ""}`;
}

function Bar({ r, at, waits }) {
  const x = at(r.from), to = at(r.to || now());
  if (r.kind === "more") return html`<svg class="w" viewBox=${"0 0 " + width + " 12"} aria-hidden="true"></svg>`;
  const rects = [];
  if (r.kind === "turn") {
    for (const s of r.spans || []) rects.push(html`<rect class=${s.to ? (r.state === "failed" && s === r.spans.at(-1) ? "f" : "m") : "r"} x=${at(s.from)} y="3" width=${Math.max(2, at(s.to || now()) - at(s.from))} height="6" rx="1.5" />`);
    for (const wait of waits) if (wait.from >= r.from && wait.x < width && (!r.to || wait.from <= r.to)) rects.push(html`<rect class="wt" x=${wait.x} y="1" width=${wait.w} height="10" rx="1.5" />`);
  } else if (r.kind === "wait") {
    const w = waits.find((p) => p.to > r.from && (!r.to || p.from <= r.to));
    if (w) rects.push(html`<rect class="wt" x=${w.x} y="1" width=${w.w} height="10" rx="1.5" />`);
  } else {
    const name = r.void ? "v" : r.state === "failed" ? "f" : r.state === "running" ? "r" : r.kind === "step" ? "m" : "tool";
    rects.push(html`<rect class=${name} x=${Math.min(x, width - 2)} y="3" width=${Math.max(2, to - x)} height="6" rx="1.5" />`);
  }
  return html`<svg class="w" viewBox=${"0 0 " + width + " 12"} aria-hidden="true">${rects}</svg>`;
}

// Course is the timeline of a live session. Its tree follows the keys of a tree: arrows move, open and close.
export function Course({ live }) {
  const tl = live.timeline;
  const [closed, setClosed] = useState(new Set());
  const tree = useRef();
  const picked = route.value.query.get("row");
  if (!tl) return html`<p class="empty t3">The events are being read.</p>`;
  const all = flat(tl, closed);
  const rows = all.slice(-400);
  const { place: at, waits } = scale(tl, width, now());
  const models = new Map(live.runs.map((r) => [r.id, r.model]));
  const toggle = (key, open) => setClosed((was) => {
    const next = new Set(was);
    if (open) next.delete(key);
    else next.add(key);
    return next;
  });
  const chosen = all.find((x) => x.row.key === picked)?.row;
  const keys = (ev) => {
    const list = [...tree.current.querySelectorAll("[role=treeitem]")], i = list.indexOf(document.activeElement), x = rows[i];
    if (i < 0) return;
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: list.length - 1 }[ev.key];
    if (to !== undefined) list[Math.max(0, Math.min(list.length - 1, to))].focus();
    else if (ev.key === "ArrowRight" && x.inner && !x.open) toggle(x.row.key, true);
    else if (ev.key === "ArrowLeft" && x.inner && x.open) toggle(x.row.key, false);
    else if (ev.key === "Enter" || ev.key === " ") query({ row: x.row.key }, { replace: true });
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  };
  return html`<div class="scroll tl"><div class="trow hd" aria-hidden="true"><span>Turn, step, call</span><span>Working time</span><span class="num">Took</span><span class="num">Cost</span></div>
    ${(tl.dropped > 0 || all.length > rows.length) && html`<p class="pad t3">Earlier rows are left out.</p>`}
    <div role="tree" aria-label="Timeline" ref=${tree} onKeyDown=${keys}>
    ${rows.map(({ row: r, depth, open, inner }, i) => html`<div key=${r.key} role="treeitem" tabindex=${r.key === picked || !chosen && i === 0 ? 0 : -1} aria-level=${depth + 1} aria-expanded=${inner ? String(open) : undefined} aria-selected=${String(r.key === picked)}
      class=${"trow" + (r.kind === "turn" ? " ch" : "") + (r.key === picked ? " cur" : "") + (r.void ? " void" : r.state === "waiting" && r.kind === "wait" ? " wait" : r.state === "failed" ? " fail" : r.state === "running" ? " run" : "")}
      onClick=${() => (r.kind === "turn" && inner ? toggle(r.key, !open) : query({ row: r.key }, { replace: true }))}>
      <span class=${"nm d" + Math.min(depth, 5)}><${Icon} name=${r.void ? "void" : r.state === "failed" ? "fail" : r.kind === "turn" ? (open ? "down" : "right") : r.state === "running" && r.kind === "step" ? "run" : icons[r.kind]} /><span class="clip">${label(r, r.number, models.get(r.run))}</span></span>
      <${Bar} r=${r} at=${at} waits=${waits} /><span class="num t2">${r.kind === "more" ? "" : span(r.kind === "turn" ? working(r) : took(r))}</span>
      <span class="num t2">${r.kind === "turn" ? (r.priced ? dollars(r.usage / 1e9) : "") : r.cost?.priced_calls ? cost(r.cost) : ""}</span></div>`)}</div></div>
    ${chosen && html`<${Inspector} r=${chosen} live=${live} />`}`;
}

function Inspector({ r, live }) {
  const call = live.calls.find((c) => c.id === r.call);
  const facts = [["From", html`<${Time} time=${new Date(r.from).toISOString()} />`], ["Took", r.to ? span((r.to - r.from) / 1000) : "not ended"],
    ["State", r.state], ...(r.by ? [["Stopped by", r.by]] : []), ...(r.call ? [["Call", html`<span title=${r.call}>${short(r.call)}</span>`]] : []),
    ...(call ? [["Waits for", call.reviewers?.length ? call.reviewers.join(", ") : "anyone who may answer"], ["Until", call.deadline ? html`<${Time} time=${call.deadline} />` : "for ever"], ["Claimed by", call.claimed_by || "nobody"]] : []),
    ...(r.cost ? [["Tokens", (r.cost.input_tokens || 0).toLocaleString("en") + " in, " + (r.cost.output_tokens || 0).toLocaleString("en") + " out"], ["From cache", (r.cost.cached_tokens || 0).toLocaleString("en")]] : []),
    ...(r.kind === "more" ? Object.entries(Object.groupBy(r.events, (e) => e)).map(([k, v]) => [k, String(v.length)]) : [])];
  return html`<section class="insp" aria-label="Selected row"><div class="ih"><h3 class="clip">${label(r, r.number, "")}</h3><span class="grow"></span>
    <button type="button" class="btn quiet icon" aria-label="Close" onClick=${() => query({ row: "" }, { replace: true })}><${Icon} name="x" /></button></div>
    <div class="ib"><table class="kv"><tbody>${facts.map(([k, v]) => html`<tr><th scope="row">${k}</th><td>${typeof v === "string" ? safe(v) : v}</td></tr>`)}</tbody></table>
    ${r.input !== undefined && html`<${Values} label="Arguments" value=${r.input} />`}${r.output !== undefined && html`<${Values} label="Result" value=${r.output} />`}
    ${r.error && html`<p class="b">${safe(r.error.code)}</p><pre class="err" tabindex="0">${safe(r.error.message)}</pre>`}</div></section>`;
}

// Events lists the raw events, the newest 500, without the pieces of replies.
export function Events({ live }) {
  const [open, set] = useState(0);
  const list = (live.timeline?.events || []).slice(-500).reverse();
  return html`<div class="scroll events" tabindex="0" role="region" aria-label="Events"><ul>${list.map((ev) => html`<li key=${ev.sequence}><button type="button" class="ev" aria-expanded=${String(open === ev.sequence)} onClick=${() => set(open === ev.sequence ? 0 : ev.sequence)}>
    <span class="t3 num">${ev.sequence}</span><code class="clip">${ev.type}</code><span class="clip grow t2">${safe(ev.tool || ev.name || ev.status || (ev.step ? "step " + ev.step : ""))}</span><span class="t3">${new Date(ev.time).toLocaleTimeString()}</span></button>
    ${open === ev.sequence && html`<div class="evjson"><${Copy} text=${JSON.stringify(ev, null, 2)} /><pre class="code" tabindex="0">${JSON.stringify(ev, null, 2)}</pre></div>`}</li>`)}</ul>
    ${live.timeline?.dropped > 0 && html`<p class="pad t3">${live.timeline.dropped.toLocaleString("en")} earlier events are left out.</p>`}</div>`;
}
