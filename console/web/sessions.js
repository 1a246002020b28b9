// The list of sessions: what needs someone first, with search and filters in the address.

import { html, useEffect, useLoad, useEvery, useMemo, useRef, useState, useSignal } from "./html.js";
import { counts, get, me, may, mayRun, sessions, situate } from "./api.js";
import { go, href, query, route } from "./router.js";
import { Icon } from "./icons.js";
import { Choice, Field } from "./filters.js";
import { Due, Empty, Failure, Loading, Menu, Status, Text, Time, minute } from "./parts.js";
import { Bulk, narrow, verbs } from "./bulk.js";
import { line, statusOf } from "./reason.js";
import { Fresh, More, Paged, usePaged } from "./paged.js";
import { useKeys } from "./keys.js";
import { cost, many, safe, title } from "./format.js";

const page = 50;

const words = { "": "any", paused: "waiting", active: "running", completed: "done", failed: "failed", interrupted: "stopped", idle: "new", deleted: "deleted", expired: "expired" };

const views = [["All", {}], ["Needs someone", { status: "paused,failed" }], ["Running", { status: "active" }], ["Archived", { archived: "true" }], ["Deleted", { status: "deleted" }]];

const ranges = [["", "any time"], ["1", "24 h"], ["7", "7 days"], ["30", "30 days"], ["between", "between…"]];

// filterOf turns the address into the parameters of the list.
function filterOf(q) {
  const days = Number(q.get("days")) || 0, to = q.get("to");
  return {
    search: q.get("q"), status: q.get("status"), agent: q.get("agent"), user_id: q.get("user"), tag: q.get("tag") ? q.get("tag").split(",") : "",
    archived: q.get("archived"), updated_before: to ? to + "T23:59:59Z" : "",
    updated_after: q.get("from") ? q.get("from") + "T00:00:00Z" : days ? new Date(Math.floor((Date.now() - days * 86400e3) / 60e3) * 60e3).toISOString() : "",
  };
}

// count is a number, or "100+" if there are more than were counted.
const count = (c) => (c ? c.count.toLocaleString("en") + (c.more ? "+" : "") : "");
const add = (a, b) => ({ count: (a?.count || 0) + (b?.count || 0), more: a?.more || b?.more });

const idOf = (s) => s.id;

// groups orders the first page: what needs someone, what runs, and the rest. Of several groups each begins with its name.
function groups(items) {
  const need = items.filter((r) => !r.removal && (r.status === "paused" || r.status === "failed"));
  const run = items.filter((r) => !r.removal && r.status === "active");
  const rest = items.filter((r) => !need.includes(r) && !run.includes(r));
  need.sort((a, b) => (a.next_deadline || "9").localeCompare(b.next_deadline || "9"));
  const cut = [["Needs someone", need], ["Running", run], ["Other", rest]].filter(([, list]) => list.length);
  return cut.flatMap(([name, list]) => [...(cut.length > 1 ? [{ key: "group " + name, name, count: name === "Other" ? "" : list.length }] : []), ...list.map((s) => ({ key: s.id }))]);
}

// useSessions reads the sessions of the address. It returns the list, and its rows: those of the first page in groups, in the
// order that they had when it was read, and behind them the older ones.
function useSessions(q, box) {
  const key = q.toString();
  const paged = usePaged({ name: "sessions", key, idOf, box, read: async (cursor, signal) => {
    const list = await sessions({ ...filterOf(q), limit: page, cursor }, { signal });
    const open = list.items.some((s) => s.status === "paused" && !s.situation) ? await get("inbox", { limit: 100 }, { signal }).catch(() => ({ items: [] })) : { items: [] };
    const by = Object.groupBy(open.items, (c) => c.root_id);
    return { ...list, items: list.items.map((s) => ({ ...s, situation: s.situation || situate(s, by[s.id]) })) };
  } });
  const { list } = paged;
  const first = useMemo(() => groups(list.items.slice(0, list.head)), [list, list.round]);
  const now = new Map(list.items.map((s) => [s.id, s]));
  return { paged, rows: [...first, ...list.items.slice(list.head).map((s) => ({ key: s.id }))].map((row) => ({ ...row, s: now.get(row.key) })) };
}

export function Sessions() {
  useSignal(minute);
  const q = route.value.query, key = q.toString(), box = useRef();
  const { paged, rows: lines } = useSessions(q, box);
  const { list, again } = paged, { error } = list, value = list.first;
  const { value: numbers, again: recount } = useLoad((signal) => counts({}, { signal }), []);
  const refresh = () => { again(); recount(); };
  useEvery(10_000, recount, [key]);
  const [at, setAt] = useState(-1);
  useEffect(() => { document.title = "Sessions · Cairn"; }, []);
  const rows = lines.filter((row) => row.s).map((row) => row.s);
  const move = (by) => setAt((i) => Math.max(0, Math.min(rows.length - 1, i + by)));
  const find = useRef(), firstFilter = useRef();
  useKeys({ j: () => move(1), k: () => move(-1), Enter: (ev) => ev.target.tagName !== "A" && ev.target.tagName !== "BUTTON" && rows[at] && go(href(["s", rows[at].id])), "/": () => find.current.focus(), f: () => firstFilter.current.focus(), c: mayRun() ? () => go(href("new")) : null });
  const [asked, ask] = useState(null);
  const mine = may("admin") || may("user") && !may("operator"); // the list has only sessions that the user may change
  const all = Object.keys(verbs).filter((v) => mine && narrow(filterOf(q), verbs[v]) && (v !== "retry" || mayRun())).map((v) => ({ name: verbs[v].name + " all that match…", danger: verbs[v].danger, run: () => ask(v) }));
  const filtered = q.size > 0;
  return html`<header class="head"><div class="grow"><h1>Sessions</h1><p class="first"><${First} numbers=${numbers} rows=${value && rows} more=${!!list.next} /></p></div>
      <div class="tools">${mayRun() && html`<a class="btn pri" href=${href("new")}>New session <kbd class="only-l">C</kbd></a>`}${all.length > 0 && html`<${Menu} label="For all that match" actions=${all} />`}</div></header>
    ${asked && html`<${Bulk} verb=${verbs[asked]} filter=${narrow(filterOf(q), verbs[asked])} words=${q.size ? "Filter: " + [...q].map(([k, v]) => k + " " + v).join(", ") : "No filter: all current sessions."} close=${() => ask(null)} done=${refresh} />`}
    <${Filters} q=${q} find=${find} first=${firstFilter} />
    <nav class="tabs" aria-label="Views">${views.map(([name, f]) => html`<a href=${href("sessions", f)} aria-current=${(q.get("status") || "") === (f.status || "") && (q.get("archived") || "") === (f.archived || "") ? "page" : undefined}>${name}
      ${numbers && f.status === "paused,failed" && html`<span>${count(add(numbers.paused, numbers.failed))}</span>`}${numbers && f.status === "active" && html`<span>${count(numbers.active)}</span>`}</a>`)}</nav>
    <${Fresh} paged=${paged} word="new or changed" /><div class="scroll" ref=${box} tabindex="0" role="region" aria-label="List">
      ${error && !value ? html`<${Failure} what="The list did not load." error=${error} again=${again} />` : !value ? html`<${Loading} lines=${8} />` : rows.length === 0 ? html`<${Empty} title=${filtered ? "No session matches." : "There are no sessions yet."} text=${filtered ? "Try fewer filters." : "A session begins with a message to an assistant."}>
        ${filtered ? html`<a class="btn" href=${href("sessions")}>Clear the filter</a>` : mayRun() && html`<a class="btn pri" href=${href("new")}>New session</a>`}<//>`
      : html`<div role="table" aria-label="Sessions" aria-rowcount=${list.next ? -1 : lines.length + 1} class="stable"><div class="srow hd" role="row"><span role="columnheader">Status</span><span role="columnheader">Title</span><span role="columnheader">Why</span><span role="columnheader">User</span><span role="columnheader">Assistant</span><span role="columnheader" class="num">Cost</span><span role="columnheader" class="num">Updated</span></div>
        <${Paged} key=${list.key} paged=${paged} rows=${lines} box=${box} role="rowgroup" draw=${(row, n) => (row.s ? html`<${Row} key=${row.key} n=${n} s=${row.s} current=${rows[at] === row.s} />`
          : html`<div key=${row.key} data-row=${row.key} class="grp" role="row" aria-rowindex=${n + 2}><span role="cell">${row.name} <span class="t3">${row.count}</span></span></div>`)} /></div>`}
      <${More} paged=${paged} /></div>
    <footer class="listfoot"><span><kbd>J</kbd><kbd>K</kbd> move</span><span><kbd>Enter</kbd> open</span><span><kbd>/</kbd> search</span><span><kbd>?</kbd> all keys</span><span class="grow"></span><span>${value ? many(rows.length, "session") + (list.next ? ", more follow" : "") : ""}</span></footer>`;
}

function First({ numbers, rows, more }) {
  if (!rows) return "";
  const of = (status) => numbers?.[status] || { count: rows.filter((r) => r.status === status).length, more };
  const wait = of("paused"), failed = of("failed"), run = of("active"), need = add(wait, failed);
  const are = run.count === 1 && !run.more ? "1 is running." : count(run) + " are running.";
  if (!need.count) return html`<b>Nobody is needed.</b> ${run.count ? are : "Nothing runs."}`;
  return html`<b>${count(need)} ${need.count === 1 && !need.more ? "needs" : "need"} someone</b>: ${count(wait)} ${wait.count === 1 ? "waits" : "wait"}, ${count(failed)} failed. ${run.count ? are : ""}`;
}

function Row({ n, s, current }) {
  const ref = useRef();
  useEffect(() => { if (current) ref.current.scrollIntoView({ block: "nearest" }); }, [current]);
  const why = s.removal ? s.removal + " " : line(s.situation, s);
  const status = s.removal || statusOf(s.situation, s);
  return html`<div class=${"srow" + (current ? " cur" : "")} role="row" aria-rowindex=${n + 2} data-row=${s.id} ref=${ref} aria-selected=${current ? "true" : undefined} onClick=${(ev) => ev.target.closest("a") || go(href(["s", s.id]))}>
    <span class="sc" role="cell"><${Status} status=${status} /></span><span class="ti" role="cell"><a class="clip grow" href=${href(["s", s.id])} dir="auto" title=${title(s)}>${title(s)}</a></span>
    <span class="re t2" role="cell"><${Text} class="clip grow" text=${why} />${s.status === "paused" && html`<${Due} time=${s.situation?.until || s.next_deadline} />`}</span>
    <span class="us clip t2" role="cell"><bdi>${safe(s.user_id || "–")}</bdi></span><span class="as clip t2" role="cell">${safe(s.agent)}</span><span class="co num t2" role="cell">${cost(s.usage)}</span><span class="up num t3" role="cell"><${Time} time=${s.updated_at} since /></span></div>`;
}

function Filters({ q, find, first }) {
  const [text, set] = useState(q.get("q") || "");
  useEffect(() => set(q.get("q") || ""), [q.get("q")]);
  const { value: agents } = useLoad((signal) => get("agents", { limit: 100 }, { signal }), []);
  useEffect(() => {
    if (text === (q.get("q") || "")) return;
    const timer = setTimeout(() => query({ q: text }, { replace: true }), 300);
    return () => clearTimeout(timer);
  }, [text]);
  const chip = (name, at, options, ref) => html`<${Choice} name=${name} at=${at} options=${options} first=${ref} />`;
  const field = (name, at, type) => html`<${Field} name=${name} at=${at} type=${type} />`;
  const status = q.get("status") || "";
  const statuses = Object.entries(words).map(([k, v]) => [k, v]);
  if (!(status in words)) statuses.push([status, status.split(",").map((w) => words[w] || w).join(" or ")]);
  return html`<form class="bar" role="search" aria-label="Filter the list" onSubmit=${(ev) => ev.preventDefault()}><label class="find"><${Icon} name="find" /><input ref=${find} type="search" aria-label="Search titles and first messages" placeholder="Titles, words" value=${text} onInput=${(ev) => set(ev.target.value)} /><kbd class="only-l">/</kbd></label>
    ${chip("Status", "status", statuses, first)}${agents?.items.length === 0 ? field("Assistant", "agent") : chip("Assistant", "agent", [["", "any"], ...(agents?.items || []).map((a) => [a.name, a.name])])}
    ${(!me.value.roles || may("operator")) && field("User", "user")}${field("Tag", "tag")}${chip("Updated", "days", ranges)}${(q.get("days") === "between" || q.get("from") || q.get("to")) && html`${field("From", "from", "date")}${field("To", "to", "date")}`}
    ${[...q.keys()].length > 0 && html`<a class="btn quiet" href=${href("sessions")}>Clear</a>`}</form>`;
}
