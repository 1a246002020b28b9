// Operations: whether all due work is being done, and by which processes.

import { html, useEffect, useLoad, useEvery } from "./html.js";
import { now, operations } from "./api.js";
import { href } from "./router.js";
import { Empty, Failure, Loading, Panel, Status, Time } from "./parts.js";
import { ago, many, safe, short } from "./format.js";

const kinds = { crashed: "Runs without a process", ending: "Stops to carry out", ready: "Sessions to resume", deadline: "Deadlines that passed", queued: "Queued turns to begin", outbox: "Events to publish" };

export function Ops() {
  const { value, error, again } = useLoad((signal) => operations({ signal }), []);
  useEvery(10_000, again);
  useEffect(() => { document.title = "Operations · Cairn"; }, []);
  return html`<header class="head"><div class="grow"><h1>Operations</h1><p class="first">${value && html`<${First} v=${value} />`}</p></div></header>
    <div class="scroll" tabindex="0" role="region" aria-label="Figures">${error && !value ? html`<${Failure} what="The operations did not load." error=${error} again=${again} />` : value === undefined ? html`<${Loading} lines=${6} />`
      : value === null ? html`<${Empty} title="Not found" text="This server shows no operations, or they are not yours to see." />` : html`<div class="grid g1"><${Workers} v=${value} /><${Due} v=${value} /><${Leases} v=${value} /><${Unserved} v=${value} /><${Days} v=${value} /></div>`}</div>`;
}

function First({ v }) {
  const due = v.due.reduce((n, d) => n + d.count, 0), cut = v.more?.includes("due") ? "more than " : "";
  const away = v.workers.filter((w) => Date.parse(w.until) < now()).length;
  if (v.unserved.length) return html`<b>${many(v.unserved.length, "due session has", "due sessions have")} no worker.</b> No registered worker serves their assistants.`;
  if (!v.workers.length && due) return html`<b>${cut}${many(due, "session is", "sessions are")} due, and no worker is registered.</b>`;
  if (due) return html`<b>${cut}${many(due, "session is", "sessions are")} due.</b> ${many(v.workers.length - away, "worker")} at work.`;
  return html`<b>All due work is done.</b> ${many(v.leases.length, "session is", "sessions are")} under way.`;
}

const cut = (v, list) => (v.more?.includes(list) ? "more follow" : "");
const name = (text) => html`<span dir="auto" title=${safe(text)}>${safe(text || "–")}</span>`;

function Workers({ v }) {
  const lapsed = v.workers.filter((w) => Date.parse(w.until) < now()).length;
  return html`<${Panel} title="Workers" note=${v.workers.length ? many(v.workers.length - lapsed, "registered worker") + (lapsed ? ", " + lapsed + " lapsed" : "") : cut(v, "workers")} none="No worker is registered: processes that only serve requests do not appear here."
    head=${[["Worker"], ["State"], ["Assistants", "only-lt"], ["Drives", "num"], ["Last seen", "num"]]}
    rows=${v.workers.map((w) => [name(w.owner), html`<${Status} status=${Date.parse(w.until) < now() ? "failed" : w.leases ? "active" : "idle"} word=${Date.parse(w.until) < now() ? "Lapsed" : w.leases ? "Working" : "Ready"} />`, name((w.version ? w.version + " · " : "") + w.agents.join(", ")), w.leases, html`<${Time} time=${w.heartbeat_at} since />`])} />`;
}

function Due({ v }) {
  const by = new Map(v.due.map((d) => [d.kind, d]));
  return html`<${Panel} title="Due now" note=${cut(v, "due")} none="" head=${[["Kind"], ["Sessions", "num"], ["Oldest", "num"]]}
    rows=${Object.entries(kinds).map(([k, words]) => [words, by.get(k)?.count || 0, by.get(k)?.count ? html`<${Time} time=${by.get(k).since} since />` : "–"])} />`;
}

function Leases({ v }) {
  return html`<${Panel} title="Under way" note=${cut(v, "leases")} none="No process drives a session." head=${[["Session"], ["Assistant"], ["Process", "only-lt"], ["Step", "num"], ["Takeovers", "num"]]}
    rows=${v.leases.map((l) => [html`<a class="link" href=${href(["s", l.root_id])} title=${safe(l.session_id)}>${safe(short(l.session_id))}</a>`, name(l.agent), name(l.owner), l.step + 1, l.recoveries || 0])} />`;
}

function Unserved({ v }) {
  return html`<${Panel} title="Without a worker" note=${cut(v, "unserved")} none="Every due session has a worker." head=${[["Session"], ["Assistant"], ["Since", "num"]]}
    rows=${v.unserved.map((u) => [html`<a class="link" href=${href(["s", u.session_id])} title=${safe(u.session_id)}>${safe(short(u.session_id))}</a>`, name(u.agent), ago(u.since)])} />`;
}

function Days({ v }) {
  return html`<${Panel} title="Model calls" note="by day, in UTC" none="This store keeps no usage." head=${[["Day"], ["Used", "num"], ["Discarded", "num"]]} rows=${[...v.days].reverse().map((d) => [d.day, d.model_calls.toLocaleString("en"), d.discarded_calls.toLocaleString("en")])} />`;
}
