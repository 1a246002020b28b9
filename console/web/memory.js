// Memory: what assistants remember of a user, a session or a group, with the history of each fact.

import { html, useEffect, useLoad, useRef, useState } from "./html.js";
import { More, Paged, usePaged } from "./paged.js";
import { ask, get, may, me, of, offered, search } from "./api.js";
import { href, query, route } from "./router.js";
import { Icon } from "./icons.js";
import { Dialog, Empty, Failure, Loading, Menu, Status, Text, Time, toast } from "./parts.js";
import { Choice, Field } from "./filters.js";
import { Values } from "./card.js";
import { useKeys } from "./keys.js";
import { many, safe, short } from "./format.js";

const sources = { user_said: "said by the user", tool_returned: "from a tool", agent_inferred: "inferred by the assistant", application: "written by the application" };

// scopeOf returns the parameters that name the memories of the address, and whether it names enough.
function scopeOf(agent, q) {
  if (agent.memory === "any") return { params: { agent: agent.name, user_id: q.get("user"), session_id: q.get("session") }, whole: true };
  const user = agent.memory === "user" ? q.get("user") || "" : "", session = agent.memory === "session" ? q.get("session") || "" : "";
  return { params: { agent: agent.name, user_id: user, session_id: session }, whole: agent.memory === "group" || !!session || agent.memory === "user" && !!(user || me.value.user) };
}

const judging = () => !may("user", "operator"); // sees the quarantine only

// mayChange reports whether the API lets the user correct and forget memories.
const mayChange = (agent, scope) => may("admin") || may("user") && agent.memory !== "group" && (agent.memory === "session" || !scope.user_id || scope.user_id === me.value.user);

const idOf = (e) => e.id;

async function read(scope, q, cursor, signal) {
  const state = judging() ? "quarantined" : q.get("state") || "";
  const filter = { ...scope, kind: q.get("kind"), source: q.get("source"), entity: q.get("entity"), limit: 50 };
  const counts = judging() || cursor ? null : await offered("memory/sources", scope, { signal });
  if (!q.get("q")) return { counts, ...await get("memory/entries", { ...filter, state, current: "true", cursor }, { signal }) };
  const hits = await get("memory/search", { ...filter, text: q.get("q"), quarantined: state === "active" ? "" : "true" }, { signal });
  return { counts, items: hits.items.filter((e) => !state || e.state === state) };
}

export function Memory() {
  const q = route.value.query, key = [...q].filter(([k]) => k !== "entry").join("&");
  const agents = useLoad(async (signal) => (await get("agents", { limit: 100 }, { signal })).items.filter((a) => a.memory), []);
  const agent = agents.value?.find((a) => a.name === q.get("agent")) || agents.value?.[0] || (agents.value && judging() && q.get("agent") ? { name: q.get("agent"), memory: "any" } : undefined);
  const { params, whole } = agent ? scopeOf(agent, q) : { params: {}, whole: false };
  const box = useRef(), paged = usePaged({ name: "memory", live: false, key: (agent?.name || "") + " " + key, idOf, box, read: async (cursor, signal) => (whole ? read(params, q, cursor, signal) : { items: [], none: true }) });
  const { list: all, again } = paged, { error, items } = all, value = all.first?.none ? null : all.first, wanted = q.get("entry");
  const find = useRef();
  const move = (by) => {
    const to = items[Math.max(0, Math.min(items.length - 1, items.findIndex((e) => e.id === wanted) + by))];
    if (to) query({ entry: to.id });
  };
  useKeys({ j: () => move(1), k: () => move(-1), "/": () => find.current?.focus() });
  useEffect(() => { document.title = "Memory · Cairn"; }, []);
  const filtered = ["q", "state", "kind", "source", "entity"].some((k) => q.get(k));
  const list = () => {
    if (agents.error || error) return html`<${Failure} what="The memories did not load." error=${agents.error || error} again=${agents.error ? agents.again : again} />`;
    if (!agents.value) return html`<${Loading} />`;
    if (!agent && judging()) return html`<${Empty} title="Whose memories? Name an assistant." text="And the user or the session, if its memories are of one." />`;
    if (!agent) return html`<${Empty} title="No assistant has a memory that can be shown." />`;
    if (!whole) return html`<${Empty} title=${"Whose memories? Name a " + agent.memory + "."} text=${"The memories of " + agent.name + " are those of one " + agent.memory + "."} />`;
    if (!value) return html`<${Loading} lines=${6} />`;
    if (!items.length) return html`<${Empty} title=${filtered ? "No memory matches." : judging() ? "Nothing is in quarantine." : "Nothing is remembered."}>${filtered && html`<a class="btn" href=${href("memory", { agent: agent.name, user: q.get("user"), session: q.get("session") })}>Clear the filter</a>`}<//>`;
    return html`<${Paged} key=${all.key} paged=${paged} rows=${items.map((e) => ({ key: e.id, e }))} box=${box} draw=${({ e }) => html`<${Row} key=${e.id} e=${e} current=${e.id === wanted} />`} /><${More} paged=${paged} />`;
  };
  return html`<header class="head"><div class="grow"><h1>Memory</h1><p class="first">${whole && value && html`<${First} counts=${value.counts} items=${items} />`}</p></div></header>
    ${(agent || agents.value && judging()) && html`<form class="bar" role="search" aria-label="Filter the list" onSubmit=${(ev) => ev.preventDefault()}><label class="find"><${Icon} name="find" /><input key=${q.get("q")} ref=${find} type="search" aria-label="Search memories" placeholder="A question, words" value=${q.get("q") || ""} disabled=${judging()} onChange=${(ev) => query({ q: ev.target.value.trim(), entry: "" })} /><kbd class="only-l">/</kbd></label>
      ${(!agent || agent.memory === "any") && html`<${Field} name="Assistant" at="agent" placeholder="its name" also=${{ entry: "" }} /><${Field} name="User" at="user" also=${{ entry: "" }} />`}
      ${agents.value.length > 1 && html`<${Choice} name="Assistant" at="agent" options=${agents.value.map((a) => [a.name, a.name])} also=${{ entry: "", user: "", session: "" }} />`}
      ${agent?.memory === "user" && (!me.value.roles || may("operator", "reviewer")) && html`<${Field} name="User" at="user" placeholder=${safe(me.value.user || "a user")} also=${{ entry: "" }} />`}
      ${(!agent || agent.memory === "session" || agent.memory === "any") && html`<${Field} name="Session" at="session" placeholder="its id" also=${{ entry: "" }} />`}
      ${!judging() && html`<${Choice} name="State" at="state" options=${[["", "any"], ["active", "in use"], ["quarantined", "in quarantine"], ["redacted", "redacted"]]} />`}
      <${Choice} name="Kind" at="kind" options=${[["", "any"], ["fact", "facts"], ["said", "said"]]} /><${Choice} name="Source" at="source" options=${[["", "any"], ...Object.entries(sources)]} /><${Field} name="About" at="entity" /></form>`}
    <div class=${"split" + (wanted ? " aside" : "")}><section class="main" aria-label="Memories"><div class="scroll" ref=${box} tabindex="0" role="region" aria-label="List">${list()}</div></section>
      <section class="right" aria-label="A memory">${wanted && whole ? html`<${Detail} key=${wanted} id=${wanted} scope=${params} change=${mayChange(agent, params)} again=${again} />` : html`<p class="empty t3">Select a memory to see where it comes from, and its versions.</p>`}</section></div>`;
}

function First({ counts, items }) {
  if (!counts) return html`<b>${many(items.length, "memory waits", "memories wait")} in quarantine.</b>`;
  const sum = (key) => counts.items.reduce((n, c) => n + c[key], 0), wait = sum("quarantined");
  return html`<b>${many(sum("facts"), "fact")}, ${many(sum("said"), "text")} of conversations.</b> ${wait ? many(wait, "memory is", "memories are") + " in quarantine." : "Nothing is in quarantine."}`;
}

const about = (e) => [e.entity, e.attribute].filter(Boolean).join(" · ");

const states = { quarantined: html`<${Status} status="paused" word="Quarantined" />`, redacted: html`<${Status} status="interrupted" word="Redacted" />` };

function Row({ e, current }) {
  return html`<a class=${"q" + (current ? " cur" : "")} data-row=${e.id} href=${href("memory", { ...Object.fromEntries(route.value.query), entry: e.id })} aria-current=${current ? "true" : undefined}><span class="l1"><b class="clip grow" dir="auto">${safe(e.text || "Without a text")}</b>${states[e.state]}</span>
    <span class="l2 clip t3"><span dir="auto">${safe(about(e) || (e.kind === "said" ? "Said" + (e.speaker ? " by " + e.speaker : "") : "A fact"))}</span> · ${sources[e.source.kind] || safe(e.source.kind)} · <${Time} time=${e.valid_from} since /></span></a>`;
}

// Detail is a memory with its source and its versions, and the verbs that change it.
function Detail({ id, scope, change, again }) {
  const { value: e, error, again: reload } = useLoad((signal) => get("memory/entries/" + of(id), scope, { signal }), [id]);
  const [draft, correct] = useState(null);
  const [sure, confirm] = useState(false);
  const close = () => query({ entry: "" });
  const act = async (method, verb, body, done) => {
    try {
      const out = await ask(method, "memory/entries/" + of(id) + verb + search(scope), body);
      toast(done);
      again();
      if (method === "DELETE") close();
      else if (out.id && out.id !== id) query({ entry: out.id });
      else reload();
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  const back = html`<button type="button" class="btn quiet icon" aria-label="Close" onClick=${close}><${Icon} name="x" /></button>`;
  if (error) return html`<div class="head">${back}</div><${Failure} what="The memory did not load." error=${error} again=${reload} />`;
  if (!e) return html`<${Loading} />`;
  const source = { source: sources[e.source.kind] || e.source.kind, tool: e.source.tool, about: about(e) || undefined, speaker: e.speaker, importance: e.importance, valid_from: e.valid_from, valid_until: e.valid_until, stored_at: e.stored_at, expires_at: e.expires_at, also_found_by: e.keys?.join(" · "), id: e.id };
  const live = e.state !== "redacted" && !e.superseded_by;
  return html`<div class="head"><div class="grow"><h2 class="first" dir="auto">${safe(e.text || "Without a text")}</h2><p class="sm">${states[e.state]}${e.superseded_by && html`<span class="t3">A newer version has replaced it.</span>`}</p></div><div class="tools">${e.state === "quarantined" && may("reviewer") && html`<button type="button" class="btn pri" onClick=${() => act("POST", "/promote", {}, "It is in use now.")}>Promote</button>`}
      ${change && live && html`<button type="button" class="btn" onClick=${() => correct(e.text)}>Correct…</button>`}
      ${change && html`<${Menu} label="More actions" actions=${[e.state !== "redacted" && { name: "Redact: remove the text only", run: () => act("POST", "/redact", {}, "Its text is gone.") }, { name: "Forget…", danger: true, run: () => confirm(true) }]} />`}${back}</div></div>
    <div class="scroll pad" tabindex="0" role="region" aria-label="Source and versions"><${Values} label="Source" value=${Object.fromEntries(Object.entries(source).filter(([, v]) => v !== undefined && v !== ""))} />
      ${e.source.session && html`<p class="sm"><a class="link" href=${href(["s", e.source.session])} title=${safe(e.source.session)}>Open the session ${safe(short(e.source.session))}</a></p>`}
      <div class="lab">Versions</div><ol class="trail">${e.history.map((v) => html`<li aria-current=${v.id === id ? "true" : undefined}><${Time} time=${v.valid_from} /><span dir="auto">${v.id === id ? html`<b>${safe(v.text || "Redacted")}</b>` : html`<a class="link" href=${href("memory", { ...Object.fromEntries(route.value.query), entry: v.id })}>${safe(v.text || "Redacted")}</a>`}</span></li>`)}</ol></div>
    ${draft !== null && html`<${Dialog} title="Correct this memory" close=${() => correct(null)}><p class="t2">The new text is a newer version. The old one stays in the history.</p><textarea class="field" rows="3" aria-label="Text" dir="auto" autofocus value=${draft} onInput=${(ev) => correct(ev.target.value)}></textarea>
      <div class="row end"><button type="button" class="btn" onClick=${() => correct(null)}>Cancel</button><button type="button" class="btn pri" disabled=${!draft.trim() || draft === e.text} onClick=${() => { correct(null); act("POST", "/correct", { text: draft }, "Corrected."); }}>Correct</button></div><//>`}
    ${sure && html`<${Dialog} title="Forget this memory?" close=${() => confirm(false)}><p class="t2">${many(e.history.length, "version is", "versions are")} deleted, and the facts that were taken from them. They cannot be restored.</p><${Text} text=${e.text} class="b brk" />
      <div class="row end"><button type="button" class="btn" onClick=${() => confirm(false)}>Cancel</button><button type="button" class="btn danger" onClick=${() => { confirm(false); act("DELETE", "", undefined, "Forgotten."); }}>Forget</button></div><//>`}`;
}
