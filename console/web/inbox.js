// The inbox: the calls that wait for a decision, by urgency; one of them as a form; and the conversation up to it.

import { html, useEffect, useLoad, useRef, useState, useSignal } from "./html.js";
import { ask, get, me, now, of } from "./api.js";
import { href, query, route } from "./router.js";
import { Icon } from "./icons.js";
import { Due, Empty, Failure, Loading, Text, Time, minute, toast } from "./parts.js";
import { plain } from "./exact.js";
import { Form } from "./form.js";
import { Values } from "./card.js";
import { Item } from "./message.js";
import { Lost, load, question, useDecision } from "./decision.js";
import { begin } from "./transcript.js";
import { Fresh, More, Paged, usePaged } from "./paged.js";
import { useKeys } from "./keys.js";
import { at, brief, dollars, left, many, safe } from "./format.js";

const keyOf = (c) => c.root_id + "/" + c.id;

// urgency orders calls: by deadline, then by age.
const urgency = (a, b) => (a.deadline || "9").localeCompare(b.deadline || "9") || a.created_at.localeCompare(b.created_at);

// read reads a page of calls. The first one has up to 500, by urgency; decided calls are listed newest first.
async function read(params, at, signal) {
  const out = [];
  let cursor = at;
  do { // a page may be empty although others follow
    const page = await get("inbox", { ...params, limit: 100, cursor }, { signal });
    out.push(...page.items);
    cursor = page.next;
  } while (cursor && out.length < (at ? 1 : 500));
  return { items: at ? out : params.status ? out.reverse() : out.sort(urgency), next: cursor };
}

export function Inbox() {
  useSignal(minute);
  const q = route.value.query, decided = q.get("show") === "decided", tool = q.get("tool") || "";
  const box = useRef(), paged = usePaged({ name: "inbox", key: (decided ? "decided " : "open ") + tool, idOf: keyOf, box, read: (cursor, signal) => read({ tool, status: decided ? "answered,settled" : "" }, cursor, signal) });
  const { list, again } = paged, { error } = list, value = list.first;
  const [gone, leave] = useState(new Set()); // decided here, until the list is read again
  const items = list.items.filter((c) => decided || !gone.has(keyOf(c)));
  const wanted = q.get("call");
  const small = matchMedia("(max-width: 759px)").matches;
  useEffect(() => { document.title = "Inbox · Cairn"; }, []);
  useEffect(() => { if (items.length && !wanted && !small) query({ call: keyOf(items[0]) }, { replace: true }); }, [items.length, wanted]);
  const move = (by) => {
    const i = items.findIndex((c) => keyOf(c) === wanted), to = items[Math.max(0, Math.min(items.length - 1, i + by))];
    if (to) query({ call: keyOf(to) });
  };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
  const done = (key, back) => {
    const i = items.findIndex((c) => keyOf(c) === key), to = items[i + 1] || items[i - 1];
    leave((was) => {
      const next = new Set(was);
      if (back) next.delete(key);
      else next.add(key);
      return next;
    });
    if (back) return again();
    query({ call: to && keyOf(to) !== key && !small ? keyOf(to) : "" }, { replace: true });
    setTimeout(again, 300);
  };
  const due = left(items[0]?.deadline);
  const tools = [...new Set(list.items.map((c) => c.tool))];
  return html`<header class=${"head inboxhead" + (wanted ? " detail" : "")}><div class="grow"><h1>Inbox</h1><p class="first">${!value ? "" : decided ? html`<b>${many(items.length, "decided call")}</b>` : items.length
      ? html`<b>${many(items.length, "call waits", "calls wait")} for you</b>${due ? (due.s > 0 ? html`; the next expires in ${due.words}.` : "; one is overdue.") : "."}` : html`<b>Nothing waits for you.</b>`}</p></div>
    <div class="tools only-l"><label class="chip">Tool <select aria-label="Tool" value=${tool} onChange=${(ev) => query({ tool: ev.target.value, call: "" })}><option value="">any</option>
      ${[...new Set([tool, ...tools])].filter(Boolean).map((t) => html`<option value=${t} selected=${t === tool}>${safe(t)}</option>`)}</select></label>
      <a class="chip" href=${href("inbox", { show: decided ? "" : "decided" })}>${decided ? "Open calls" : "Decided"}</a></div></header>
    <div class=${"inbox" + (wanted ? " detail" : "")}><nav class="queue" ref=${box} aria-label="Calls by urgency" tabindex="0"><${Fresh} paged=${paged} word="new" />
      ${error && !value ? html`<${Failure} what="The inbox did not load." error=${error} again=${again} />` : !value ? html`<${Loading} lines=${6} />` : items.length === 0 ? html`<${Empty} title="Nothing waits for you." text=${tool ? "Filter: tool " + tool + "." : "Calls that need a person appear here by themselves."}>
        ${tool && html`<a class="btn" href=${href("inbox")}>Clear the filter</a>`}<//>` : html`<${Paged} key=${list.key} paged=${paged} rows=${items.map((c) => ({ key: keyOf(c), c }))} box=${box} draw=${({ key, c }) => html`<${Row} key=${key} c=${c} current=${key === wanted} />`} />`}
      <${More} paged=${paged} /></nav>
    ${wanted ? html`<${Detail} key=${wanted} root=${wanted.slice(0, wanted.lastIndexOf("/"))} id=${wanted.slice(wanted.lastIndexOf("/") + 1)} at=${items.findIndex((c) => keyOf(c) === wanted) + 1} of=${items.length} done=${(back) => done(wanted, back)} next=${() => move(1)} />`
      : html`<section class="det" aria-label="No call is selected"></section><aside class="ev" aria-label="Evidence"></aside>`}</div>`;
}

const names = { budget: "Raise the budget", effect: "Check an effect", connect: "Connect an account" };

function headline(c) {
  if (c.kind === "question") return "Question: " + (c.prompt || c.tool);
  return names[c.kind] || (c.tool + " " + brief(c.input, 40)).trim();
}

function who(c) {
  const mine = me.value.user;
  if (c.claimed_by && Date.parse(c.claimed_until) > now()) return (c.claimed_by === mine ? "you, until " : "claimed by " + c.claimed_by + ", until ") + at(c.claimed_until);
  return (c.reviewers?.length ? c.reviewers.join(", ") : "anyone") + " · since " + at(c.created_at);
}

function Row({ c, current }) {
  return html`<a class=${"q" + (current ? " cur" : "")} data-row=${keyOf(c)} href=${href("inbox", { ...Object.fromEntries(route.value.query), call: keyOf(c) })} aria-current=${current ? "true" : undefined}><span class="l1"><b class="clip grow" dir="auto">${safe(headline(c))}</b><${Due} time=${c.status === "open" ? c.deadline : ""} /></span>
    <${Text} class="l2 clip" text=${c.prompt || c.root_id} /><span class="l2 clip t3">${safe(c.agent)} · ${safe(c.answer ? c.answer.verdict + " by " + (c.answer.reviewer || "nobody") : who(c))}</span></a>`;
}

function Detail({ root, id, at: place, of: all, done, next }) {
  const { value: call, error, again } = useLoad((signal) => load(root, id, { signal }), [root, id]);
  const [evidence, show] = useState(false);
  const back = html`<div class="row only-s t3 sm"><a class="btn quiet icon" aria-label="Back to the inbox" href=${href("inbox")}><${Icon} name="left" /></a><span class="grow">${place > 0 && place + " of " + all}</span>
    <button type="button" class="btn quiet" onClick=${() => show(!evidence)}>${evidence ? "Decision" : "Evidence"}</button></div>`;
  if (error) return html`<section class="det" aria-label="Call"><div class="pad">${back}</div><${Failure} what="The call did not load." error=${error} again=${again} /></section><aside class="ev" aria-label="Evidence"></aside>`;
  if (!call) return html`<section class="det" aria-label="Call"><div class="pad">${back}</div><${Loading} /></section><aside class="ev" aria-label="Evidence"></aside>`;
  return html`<section class=${"det" + (evidence ? " away" : "")} aria-label=${headline(call)}>${call.status === "open" ? html`<${Decision} key=${call.id} call=${call} back=${back} done=${done} next=${next} again=${again} />`
    : html`<div class="scroll" tabindex="0"><div class="head"><div class="grow">${back}<h2 class="first" tabindex="-1"><b dir="auto">${safe(question(call))}</b></h2><p class="sm t2">It is ${call.status}${call.answer ? ": " + call.answer.verdict + " by " + safe(call.answer.reviewer || "nobody") + " at " + at(call.answer.at) : ""}.</p></div></div>
      <div class="form"><${Values} label="Input" value=${plain(call.input ?? null)} /></div></div>`}</section>
    <${Evidence} call=${call} shown=${evidence} back=${back} />`;
}

function Decision({ call, back, done, next, again }) {
  const d = useDecision(call);
  const heading = useRef(), primary = useRef(), reason = useRef();
  const [denying, deny] = useState(false);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [call.id]);
  const mine = me.value.user;
  const other = call.claimed_by && call.claimed_by !== mine && Date.parse(call.claimed_until) > now() ? call.claimed_by : "";
  const decide = async (run, word) => {
    done(false);
    try {
      await run();
      toast(word);
    } catch (err) {
      done(true);
      query({ call: keyOf(call) }, { replace: true });
      toast(err instanceof Lost ? err.message : err.code === "claimed" ? "Another reviewer has claimed it. Your edits are kept." : err.message, { error: true });
    }
  };
  const startDeny = () => {
    deny(true);
    requestAnimationFrame(() => reason.current?.focus());
  };
  useKeys({ a: () => primary.current?.focus(), d: startDeny });
  const claim = async (verb) => {
    try {
      await ask("POST", "inbox/" + of(call.root_id, call.id) + "/" + verb, {});
      again();
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  const due = left(call.deadline);
  const until = due ? (due.s > 0 ? "Expires at " + at(call.deadline) + ", in " + due.words + "; then the model is told that nobody answered." : "Its time is over.") : "";
  const n = d.edits.length, changed = n === 1 ? "1 change" : n + " changes";
  return html`<div class="scroll" tabindex="0" role="region" aria-label="What is asked"><div class="head"><div class="grow">${back}<h2 class="first" tabindex="-1" ref=${heading}><b dir="auto">${safe(question(call))}</b></h2>
      <p class="sm t2" dir="auto">${call.prompt && call.prompt !== question(call) ? "“" + safe(call.prompt) + "” " : ""}${until}</p>
      ${call.kind === "approval" && call.quorum && html`<p class="sm t2">${call.quorum === "all" ? "All reviewers must approve." : "Most reviewers must approve."}</p>`}</div>
      <div class="tools">${other ? html`<span class="st wait"><${Icon} name="user" />${safe(other)}</span>` : call.claimed_by === mine && mine ? html`<button type="button" class="btn" onClick=${() => claim("release")}>Release</button>` : mine && html`<button type="button" class="btn" onClick=${() => claim("claim")}>Claim</button>`}</div></div>
    ${call.kind === "budget" ? html`<${Budget} call=${call} d=${d} decide=${decide} />` : html`
    ${call.kind !== "approval" && call.input && html`<div class="form"><${Values} label="The tool was called with" value=${plain(call.input)} /></div>`}
    ${call.payload && html`<div class="form"><${Values} label="Given with it" value=${call.payload} /></div>`}
    <${Form} schema=${d.schema} value=${d.value} proposed=${call.kind === "approval" ? call.input : undefined} onChange=${d.set} disabled=${d.sending || call.kind === "approval" && !!call.no_edits} />`}</div>
    ${call.kind !== "budget" && html`<form class="decide" onSubmit=${(ev) => ev.preventDefault()}>
      ${n > 0 && html`<div class="row sm"><span class="ins nw">${changed}</span><span class="clip t2" dir="auto">${safe(d.edits.map((e) => e.path + " " + e.from + " → " + e.to).join(", "))}. The model is told.</span></div>`}
      <div class="row"><input class="field grow" ref=${reason} value=${d.note} onInput=${(ev) => d.setNote(ev.target.value)} aria-label=${denying ? "Why not" : "Why"} placeholder=${denying ? "Why not? The model reads it" : "Why (kept in the trail)"} dir="auto" /></div>
      <div class="row">${denying ? html`<button type="submit" class="btn lg danger grow" disabled=${!d.note.trim()} onClick=${() => decide(() => (call.kind === "approval" ? d.deny(d.note) : d.refuse(d.note)), call.kind === "approval" ? "Denied." : "Answered with a refusal.")}>${call.kind === "approval" ? "Deny" : "Refuse"}</button>
          <button type="button" class="btn lg quiet" onClick=${() => deny(false)}>Back</button>`
        : html`<button type="submit" class="btn lg pri grow" ref=${primary} disabled=${d.bad.length > 0 || d.sending || call.kind !== "approval" && d.value === undefined}
            onClick=${() => decide(call.kind === "approval" ? d.approve : () => d.answer(), call.kind === "approval" ? "Approved " + call.tool + "." : "Answered.")}>${call.kind === "approval" ? (n ? "Approve with " + changed : "Approve") : "Send the answer"} <kbd class="only-l">A</kbd></button>
          <button type="button" class="btn lg danger" onClick=${startDeny}>${call.kind === "approval" ? "Deny…" : "Refuse…"} <kbd class="only-l">D</kbd></button>
          <button type="button" class="btn lg quiet only-l" onClick=${next}>Skip <kbd>J</kbd></button>`}</div>
      ${d.bad.length > 0 && html`<p class="sm wrong" role="status">${safe(d.bad[0][0] || "The value")}: ${d.bad[0][1]}</p>`}</form>`}`;
}

// Budget decides about a budget that is used up.
function Budget({ call, d, decide }) {
  const b = call.payload || {};
  const [by, set] = useState(String(b.limit || ""));
  const amount = (x) => (b.unit === "usd" ? dollars(x || 0) : (x || 0).toLocaleString("en") + " " + safe(b.unit));
  const good = Number(by) > 0;
  return html`<form class="form" onSubmit=${(ev) => ev.preventDefault()}><table class="kv"><tbody><tr><th scope="row">Used</th><td>${amount(b.spent)} of ${amount(b.limit)}, per ${safe(b.per)}</td></tr>
      ${b.estimate ? html`<tr><th scope="row">Next call</th><td>about ${amount(b.estimate)}</td></tr>` : ""}${b.rule ? html`<tr><th scope="row">Rule</th><td>${safe(b.rule)} ${safe(b.of || "")}</td></tr>` : ""}</tbody></table>
    <div class="frow"><label for="raise-by">Raise by</label><div><span class="suffix"><input class="field" id="raise-by" inputmode="decimal" value=${by} onInput=${(ev) => set(ev.target.value)} /><span>${safe(b.unit || "")}</span></span></div></div>
    <div class="row"><button type="button" class="btn lg pri" disabled=${!good || d.sending} onClick=${() => decide(() => d.answer({ outcome: "raise", by: Number(by) }), "Raised.")}>Raise by ${good ? amount(Number(by)) : "…"}</button>
      <button type="button" class="btn lg danger" disabled=${d.sending} onClick=${() => decide(() => d.answer({ outcome: "end" }), "The turn ends.")}>End the turn</button></div></form>`;
}

// Evidence is the conversation up to the call, and its audit trail.
function Evidence({ call, shown, back }) {
  const { value, error } = useLoad(async (signal) => {
    const path = "sessions/" + of(call.session_id);
    let page = await get(path + "/messages", { limit: 100 }, { signal });
    if (page.total > 100) page = await get(path + "/messages", { from: page.total - 100, limit: 100 }, { signal });
    return begin({ session: { id: call.session_id, message_count: page.total, status: "" }, messages: page.items, cursor: "" }).items.map((i) => (i.call === (call.tool_call_id || call.id) && call.status === "open" ? { ...i, state: "waiting" } : i));
  }, [call.session_id, call.id]);
  const items = value || [];
  const first = items.findLastIndex((i) => i.kind === "user");
  return html`<aside class=${"ev" + (shown ? " shown" : "")} aria-label="Evidence" tabindex="0">${shown && back}<div class="lab">Conversation up to here</div>
    <p class="sm"><a class="link" href=${href(["s", call.root_id])}>Open the session</a>${call.user_id && html` of <bdi>${safe(call.user_id)}</bdi>`}</p>
    ${error && html`<p class="t3">The conversation is not yours to read.</p>`}
    <div class="conv sm">${items.slice(Math.max(0, first === -1 ? items.length - 8 : Math.min(first, items.length - 2))).slice(-12).map((item, i) => html`<${Item} key=${i} item=${item} />`)}</div>
    ${call.trail?.length > 0 && html`<div class="lab">Trail</div><ul class="trail">${call.trail.map((t) => html`<li><${Time} time=${t.timestamp} /><span dir="auto">${safe(t.reviewer || "Cairn")} ${safe(t.decision)}${t.notes ? ": " + safe(t.notes) : ""}</span></li>`)}</ul>`}</aside>`;
}
