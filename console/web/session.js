// The page of one session: why it waits or stopped, the conversation, and beside it the timeline.

import { html, useEffect, useLoad, useMemo, useSignal, useState } from "./html.js";
import { ask, get, may, mayRun, me, of, offered } from "./api.js";
import { Live } from "./live.js";
import { go, href, query, route } from "./router.js";
import { Icon } from "./icons.js";
import { copy, Dialog, Empty, Failure, Loading, Menu, Time, minute, statuses, toast } from "./parts.js";
import { Values } from "./card.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { Fork } from "./fork.js";
import { Course, Events } from "./course.js";
import { sentence, statusOf } from "./reason.js";
import { Files } from "./files.js";
import { Scores } from "./scores.js";
import { useKeys } from "./keys.js";
import { cost, percent, safe, title } from "./format.js";

// useLive follows a session while the component is shown.
export function useLive(id, options) {
  const live = useMemo(() => new Live(id, options), [id]);
  useEffect(() => () => live.close(), [live]);
  useSignal(live.tick);
  return live;
}

export function Session({ id }) {
  const live = useLive(id, { course: true });
  useSignal(minute);
  const [forking, fork] = useState(null);
  live.forks = fork;
  if (live.error) return html`<${Gone} id=${id} error=${live.error} again=${() => live.open()} />`;
  if (!live.t) return html`<${Loading} lines=${6} />`;
  const row = live.status?.session;
  return html`<${Head} live=${live} row=${row} />${row && html`<${Why} live=${live} row=${row} />`}${row && html`<${Facts} row=${row} />`}<${Split} live=${live} row=${row} />${forking !== null && row && html`<${Fork} live=${live} turn=${forking} close=${() => fork(null)} />`}`;
}

// Gone is a session that cannot be shown: it was deleted, has expired, or is another user's.
function Gone({ id, error, again }) {
  const removed = error.code === "deleted" || error.code === "expired";
  const restore = async () => {
    try {
      await ask("POST", "sessions/" + of(id) + "/restore", {});
      again();
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  if (!removed && error.status !== 404) return html`<${Failure} what="The session did not load." error=${error} again=${again} />`;
  return html`<div class="head"><h1>${removed ? "This session is gone" : "Not found"}</h1></div><${Empty} title=${error.code === "expired" ? "It has expired." : removed ? "It was deleted." : "There is no such session, or it was deleted."} text="It may be restored for a while.">
    <button type="button" class="btn" onClick=${restore}>Restore it</button> <a class="btn quiet" href=${href("sessions")}>All sessions</a><//>`;
}

function Head({ live, row }) {
  const [name, edit] = useState(null);
  const [sure, confirm] = useState(false);
  const path = "sessions/" + of(live.id);
  const shown = row ? title(row) : live.id;
  useEffect(() => { document.title = shown + " · Cairn"; }, [shown]);
  const change = async (body, done) => {
    try {
      await ask("PATCH", path, body);
      await live.settle();
      if (done) toast(done);
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  const rename = (ev) => {
    ev.preventDefault();
    edit(null);
    if (name !== row.title) change({ title: name });
  };
  const remove = async () => {
    confirm(false);
    try {
      await ask("DELETE", path);
      toast("Deleted.", { verb: { name: "Restore", run: () => ask("POST", path + "/restore", {}).then(() => go(href(["s", live.id])), (err) => toast(err.message, { error: true })) } });
      go(href("sessions"));
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  const acts = may("user");
  const fork = () => row && live.forks(0);
  useKeys({ b: acts ? fork : null, e: acts && row ? () => edit(row.title || "") : null });
  return html`<header class="head"><div class="crumb"><a class="btn quiet icon only-s" aria-label="Back to sessions" href=${href("sessions")}><${Icon} name="left" /></a>
      <a class="t3 only-l" href=${href("sessions")}>Sessions</a><span class="t3 only-l">/</span>
      ${name === null ? html`<h1 class="clip" dir="auto" title=${shown}>${shown}</h1>${acts && row && html`<button type="button" class="btn quiet icon only-l" aria-label="Rename" onClick=${() => edit(row.title || "")}><${Icon} name="edit" /></button>`}`
      : html`<form class="row grow" onSubmit=${rename}><h1 class="vh">${shown}</h1><input class="field" aria-label="Title" autofocus dir="auto" value=${name} onInput=${(ev) => edit(ev.target.value)} onKeyDown=${(ev) => { if (ev.key === "Escape") { ev.stopPropagation(); edit(null); } }} /><button class="btn pri">Save</button></form>`}</div>
    <div class="tools">${row?.branch && html`<a class="btn only-l" href=${href(["s", row.branch.from, "compare", live.id])}>Compare with the original</a>`}${acts && html`<button type="button" class="btn only-l" onClick=${fork}><${Icon} name="fork" />Fork <kbd>B</kbd></button>`}
      <${Menu} label="More actions" actions=${[acts && row && { name: "Rename", run: () => edit(row.title || "") }, acts && row && { name: "Fork…", run: fork },
        row?.branch && { name: "Compare with the original", run: () => go(href(["s", row.branch.from, "compare", live.id])) },
        acts && row && { name: row.archived_at ? "Make it current again" : "Archive", run: () => change({ archived: !row.archived_at }, row.archived_at ? "It is current again." : "Archived.") },
        { name: "Copy the id", run: () => copy(live.id).then(() => toast("The id is copied.")) }, { name: "Open as a chat", run: () => go(href(["chat", live.id])) },
        acts && { name: "Delete…", danger: true, run: () => confirm(true) }]} /></div>
    ${sure && html`<${Dialog} title="Delete this session?" close=${() => confirm(false)}><p class="t2">The conversation and its sub-agents’ are removed. They can be restored for a while.</p>
      <div class="row end"><button type="button" class="btn" onClick=${() => confirm(false)}>Cancel</button><button type="button" class="btn danger" onClick=${remove}>Delete</button></div><//>`}</header>`;
}

// Why is the first line: why the session waits or stopped, and the verbs that end it.
function Why({ live, row }) {
  const s = live.status.situation;
  const status = statusOf(s, row), tone = statuses[status];
  const { bold, rest, until } = sentence(s, me.value.user);
  const verbs = s.verbs || [];
  const call = s.call || live.calls[0];
  const run = (f) => f().catch((err) => toast(err.message, { error: true }));
  const stop = () => run(() => live.stop().then(() => toast("Stopped. What was said is kept.")));
  const retry = () => run(() => ask("POST", "retry", { session_id: live.id }));
  const resume = () => run(() => ask("POST", "resume", { session_id: live.id }));
  const review = () => go(href("inbox", { call: call.root_id + "/" + call.id }));
  const can = { review: call && may("reviewer", "user"), stop: verbs.includes("stop") && may("user"), retry: verbs.includes("retry") && mayRun(), resume: verbs.includes("resume") && s.kind !== "new" && mayRun() };
  useKeys({ r: can.review ? review : null, t: can.retry ? retry : null, Escape: can.stop && live.running ? stop : null });
  return html`<div class=${"why " + tone.tone} role="status"><${Icon} name=${tone.icon} /><p dir="auto"><b>${bold}</b> ${rest} ${until}</p><div class="row acts">
    ${can.stop && html`<button type="button" class="btn" onClick=${stop}>Stop${live.running && html` <kbd class="only-l">Esc</kbd>`}</button>`}
    ${can.resume && html`<button type="button" class="btn" onClick=${resume}>Resume</button>`}
    ${can.retry && html`<button type="button" class="btn pri" onClick=${retry}>Retry <kbd class="only-l">T</kbd></button>`}
    ${can.review && html`<button type="button" class="btn pri" onClick=${review}>Review <kbd class="only-l">R</kbd></button>`}</div></div>`;
}

function Facts({ row }) {
  const u = row.usage || {};
  return html`<div class="facts" role="group" aria-label="Facts" tabindex="0">${row.user_id && html`<span>User <b><bdi>${safe(row.user_id)}</bdi></b></span>`}<span>Assistant <b>${safe(row.agent)}</b></span>
    <span><b>${row.turn}</b> ${row.turn === 1 ? "turn" : "turns"}, <b>${row.message_count}</b> messages</span><span>Cost <b>${cost(u)}</b></span><span>Cache <b>${percent(u.cached_tokens || 0, u.input_tokens)}</b></span>
    <span>Started <b><${Time} time=${row.created_at} /></b></span>${(row.tags || []).map((t) => html`<span class="tag">${safe(t)}</span>`)}</div>`;
}

const tabs = [["timeline", "Timeline"], ["state", "State"], ["prompt", "Prompt"], ["events", "Events"], ["files", "Files"], ["scores", "Scores"]];

function Tabs({ at, small, count }) {
  const list = small ? [["", "Conversation"], ...tabs] : tabs;
  return html`<nav class=${"tabs" + (small ? " only-s" : "")} aria-label=${small ? "Parts of the session" : "Beside the conversation"}>${list.map(([key, name]) => html`<a href=${href(route.value.path, { ...Object.fromEntries(route.value.query), tab: key })} aria-current=${at === key ? "page" : undefined}>${name}${key === "events" && count ? html`<span>${count}</span>` : ""}</a>`)}</nav>`;
}

function Split({ live, row }) {
  const tab = route.value.query.get("tab") || "";
  const count = (live.timeline?.events.length || 0) + (live.timeline?.dropped || 0);
  const side = tab || "timeline";
  return html`<${Tabs} at=${tab} small count=${count} /><div class=${"split" + (tab ? " aside" : "")}><section class="main" aria-label="The session"><${Conversation} live=${live} />
      ${live.queue.length > 0 && html`<${Queue} live=${live} />`}
      ${mayRun() && html`<${Composer} id=${live.id} placeholder="Write to the session…" running=${live.running} stop=${() => live.stop().catch((err) => toast(err.message, { error: true }))}
        send=${(text, files, { queue }) => { live.follow?.(); return live.send(text, files, { how: live.running && !queue ? "steer" : "enqueue" }); }}
        hint=${live.running ? html`<b>Enter</b> steers the turn · <b>Alt Enter</b> queues a turn after it` : row?.status === "paused" ? "The turn waits. A message is queued until it continues." : row?.status === "failed" ? html`A message begins a new turn. <b>Retry</b> continues this one.` : ""} />`}</section>
    <section class="right" aria-label="Course of the session"><${Tabs} at=${side} count=${count} />
      ${side === "timeline" ? html`<${Course} live=${live} />` : side === "events" ? html`<${Events} live=${live} />` : side === "files" ? html`<${Files} live=${live} />` : side === "scores" ? html`<${Scores} live=${live} />` : side === "state" ? html`<${State} live=${live} row=${row} />` : html`<${Prompt} live=${live} />`}</section></div>`;
}

function Queue({ live }) {
  const drop = (q) => ask("DELETE", "sessions/" + of(live.id) + "/queue/" + of(q.id)).then(() => live.settle(), (err) => toast(err.message, { error: true }));
  return html`<ul class="queued" aria-label="Queued turns">${live.queue.map((q) => html`<li key=${q.id}><${Icon} name="wait" /><span class="clip grow" dir="auto">${safe(q.messages.flatMap((m) => m.parts.map((p) => p.text || p.file?.name)).join(" "))}</span><span class="t3">queued</span>
    <button type="button" class="btn quiet icon" aria-label="Remove from the queue" onClick=${() => drop(q)}><${Icon} name="x" /></button></li>`)}</ul>`;
}

function State({ live, row }) {
  const { value, error, again } = useLoad((signal) => get("sessions/" + of(live.id) + "/snapshot", { last: 1 }, { signal }), [live.id, row?.version]);
  if (error) return html`<${Failure} what="The state did not load." error=${error} again=${again} />`;
  if (!value) return html`<${Loading} />`;
  const facts = { id: live.id, status: row?.status, metadata: row?.metadata, tags: row?.tags, expires_at: row?.expires_at, version: row?.version };
  return html`<div class="scroll pad" tabindex="0" role="region" aria-label="State"><${Values} label="State" value=${value.state ?? {}} /><${Values} label="Session" value=${Object.fromEntries(Object.entries(facts).filter(([, v]) => v !== undefined))} /></div>`;
}

// Prompt is the request that the last reply answered: for operators.
function Prompt({ live }) {
  const { value, error, loading } = useLoad(async (signal) => {
    const messages = await get("sessions/" + of(live.id) + "/messages", { from: Math.max(0, live.status.session.message_count - 100), limit: 100 }, { signal });
    for (let i = messages.total - 1; i >= Math.max(0, messages.total - 6); i--) {
      const request = await offered("sessions/" + of(live.id) + "/messages/" + i + "/request", {}, { signal }).catch(() => null);
      if (request) return { request, i };
    }
    return null;
  }, [live.id, live.status?.session.version]);
  if (loading && !value) return html`<${Loading} />`;
  if (error || !value) return html`<${Empty} title="No request is shown." text="Operators see what the model was asked, once it has answered." />`;
  const r = value.request;
  return html`<div class="scroll pad" tabindex="0" role="region" aria-label="Prompt"><p class="t3">What the model was asked for message ${value.i}.</p>
    <pre class="code" tabindex="0">${safe(typeof r.instructions === "string" ? r.instructions : JSON.stringify(r.instructions ?? r.system ?? "", null, 2))}</pre><${Values} label="Request" value=${r} /></div>`;
}

