// Effects: the calls of effectful tools, and those of which nobody knows whether they happened.

import { html, useEffect, useRef, useState } from "./html.js";
import { ask, get, may, me, of } from "./api.js";
import { href, route } from "./router.js";
import { Dialog, Empty, Failure, Loading, Status, Time, toast } from "./parts.js";
import { Choice, Field } from "./filters.js";
import { Values } from "./card.js";
import { filled, Fresh, More, Paged, usePaged } from "./paged.js";
import { useKeys } from "./keys.js";
import { brief, many, safe, short } from "./format.js";

const states = { sent: ["active", "Under way"], unknown: ["paused", "Unknown"], confirmed: ["completed", "Happened"], failed: ["interrupted", "Did not happen"] };

const idOf = (c) => c.root_id + "/" + c.id;

export function Effects() {
  const q = route.value.query, state = q.get("state") ?? "unknown", key = q.toString();
  const box = useRef();
  const paged = usePaged({ name: "effects", key, idOf, box, read: (cursor, signal) => filled((at) => get("effects", { state: state === "all" ? "" : state, tool: q.get("tool"), user_id: q.get("user"), agent: q.get("agent"), limit: 100, cursor: at }, { signal }), cursor) });
  const { list, again } = paged, { error, items } = list, value = list.first;
  const [asked, settle] = useState(null);
  const first = useRef();
  useKeys({ f: () => first.current?.focus() });
  useEffect(() => { document.title = "Effects · Cairn"; }, []);
  const unknown = items.filter((c) => c.effect.state === "unknown").length;
  const found = list.next ? "More than " + many(items.length, "effect") : many(items.length, "effect");
  return html`<header class="head"><div class="grow"><h1>Effects</h1><p class="first">${value && (unknown ? html`<b>${list.next ? "More than " : ""}${many(unknown, "effect is", "effects are")} unknown.</b> Check whether they happened, then settle them.`
      : state === "unknown" ? html`<b>No effect is unknown.</b>` : html`<b>${found}.</b>`)}</p></div></header>
    <form class="bar" aria-label="Filter the list" onSubmit=${(ev) => ev.preventDefault()}><${Choice} name="State" at="state" first=${first} options=${[["unknown", "unknown"], ["sent", "under way"], ["confirmed", "happened"], ["failed", "did not happen"], ["all", "any"]]} /><${Field} name="Tool" at="tool" /><${Field} name="Assistant" at="agent" />
      ${(!me.value.roles || may("operator")) && html`<${Field} name="User" at="user" />`}</form>
    <${Fresh} paged=${paged} word="new or changed" /><div class="scroll" ref=${box} tabindex="0" role="region" aria-label="List">${error && !value ? html`<${Failure} what="The effects did not load." error=${error} again=${again} />` : !value ? html`<${Loading} lines=${6} />`
      : items.length === 0 ? html`<${Empty} title=${state === "unknown" ? "Nothing is unknown." : "No effect matches."} text="A call of an effectful tool is unknown if its process ended, or its run was stopped, during the call." />`
      : html`<${Paged} key=${list.key} paged=${paged} rows=${items.map((c) => ({ key: idOf(c), c }))} box=${box} draw=${({ key: at, c }) => html`<${Row} key=${at} name=${at} c=${c} settle=${settle} />`} />`}
      <${More} paged=${paged} /></div>
    ${asked && html`<${Settle} call=${asked.call} happened=${asked.happened} close=${() => settle(null)} done=${again} />`}`;
}

function Row({ name, c, settle }) {
  const [open, show] = useState(false);
  const [status, word] = states[c.effect.state] || states.sent;
  const can = c.effect.state === "unknown" && may("reviewer", "user");
  return html`<article class="effect" data-row=${name} aria-label=${c.tool}><div class="row"><button type="button" class="btn quiet grow left" aria-expanded=${String(open)} onClick=${() => show(!open)}><code class="clip">${safe(c.tool)}</code><span class="clip grow t2" dir="auto">${brief(c.input)}</span></button><${Status} status=${status} word=${word} /></div>
    <p class="sm t3"><${Time} time=${c.effect.sent_at || c.created_at} /> · ${many(c.effect.attempts, "attempt")} · ${safe(c.agent)} · <a class="link" href=${href(["s", c.session_id])} title=${safe(c.session_id)}>${safe(short(c.session_id))}</a>${c.user_id && html` of <bdi>${safe(c.user_id)}</bdi>`}${c.status === "open" ? " · a run waits for it" : ""}</p>
    ${open && html`<${Values} label="Input" value=${c.input ?? null} /><${Values} label="Effect" value=${c.effect} />`}
    ${can && html`<div class="row"><button type="button" class="btn" onClick=${() => settle({ call: c, happened: true })}>It happened…</button><button type="button" class="btn" onClick=${() => settle({ call: c, happened: false })}>It did not happen…</button></div>`}</article>`;
}

// Settle asks how the outcome was found out, and records it.
function Settle({ call, happened, close, done }) {
  const [notes, set] = useState("");
  const send = async (ev) => {
    ev.preventDefault();
    try {
      await ask("POST", "effects/" + of(call.root_id, call.id) + "/settle", { happened, notes });
      toast(happened ? "Recorded: it happened." : "Recorded: it did not happen.");
    } catch (err) {
      toast(err.message, { error: true });
    }
    close();
    done();
  };
  return html`<${Dialog} title=${happened ? "Did it happen?" : "Did it not happen?"} close=${close}><form class="stack" onSubmit=${send}><p dir="auto"><code>${safe(call.tool)}</code> ${brief(call.input)}</p>
    <p class="t2">${happened ? "The call is not made again." : "The tool may be called again."} Its idempotency key is <code class="brk">${safe(call.effect.idempotency_key)}</code>.</p>
    <input class="field" aria-label="How you found out" placeholder="How you found out (kept in the trail)" autofocus dir="auto" value=${notes} onInput=${(ev) => set(ev.target.value)} />
    <div class="row end"><button type="button" class="btn" onClick=${close}>Cancel</button><button class="btn pri">${happened ? "It happened" : "It did not happen"}</button></div></form><//>`;
}
