// A call that waits, within a conversation: what is asked, and the answer.

import { html, useLoad, useState } from "./html.js";
import { me } from "./api.js";
import { href } from "./router.js";
import { plain } from "./exact.js";
import { Form } from "./form.js";
import { Values } from "./card.js";
import { Lost, known, load, question, useDecision } from "./decision.js";
import { Due, toast } from "./parts.js";
import { safe } from "./format.js";

// Ask shows a call of the session, or of a sub-agent. Its numbers are read as they were written.
export function Ask({ call, live, chat }) {
  const { value } = useLoad((signal) => load(call.root_id, call.id, { signal }), [call.id]);
  return value?.status === "open" && html`<${Question} call=${value} live=${live} chat=${chat} />`;
}

function Question({ call, live, chat }) {
  const d = useDecision(call);
  const [editing, edit] = useState(call.kind === "question" || call.kind === "connect" || call.kind === "effect");
  const [denying, deny] = useState(null);
  const foreign = call.reviewers?.length > 0 && me.value.user && !call.reviewers.includes(me.value.user);
  const done = async (run) => {
    try {
      await run();
      await live.settle();
    } catch (err) {
      if (err instanceof Lost) live.settle();
      toast(err.message, { error: true });
    }
  };
  const runHere = () => done(async () => {
    try {
      await d.answer(await known[call.tool](plain(call.input)));
    } catch (err) {
      if (err.status !== undefined) throw err;
      await d.refuse(err.message);
    }
  });
  const title = chat && call.kind === "approval" ? call.prompt || "May I run " + call.tool.replace(/[_-]+/g, " ") + "?" : question(call);
  return html`<section class="ask" aria-label=${"Waits for an answer: " + call.tool}><h2 dir="auto">${safe(title)} <${Due} time=${call.deadline} /></h2>
    ${!chat && call.prompt && call.prompt !== title && html`<p class="t2" dir="auto">${safe(call.prompt)}</p>`}
    ${foreign ? html`<p class="t2">${chat ? "A colleague has to confirm this. You will get an answer here." : "Waits for " + call.reviewers.map(safe).join(", ") + "."}</p>` : html`
    ${call.kind === "connect" && /^https?:/i.test(call.payload?.url || "") && html`<p><a class="btn" href=${call.payload.url} target="_blank" rel="noopener noreferrer">Connect the account</a></p>`}
    ${call.kind === "approval" && !editing && html`<${Values} label="Arguments" value=${call.input} simple=${chat} />`}
    ${call.kind === "client_tool" && !editing && call.input !== undefined && html`<${Values} label="Arguments" value=${call.input} />`}
    ${editing && html`<${Form} schema=${d.schema} value=${d.value} proposed=${call.kind === "approval" ? call.input : undefined} onChange=${d.set} disabled=${d.sending} />`}
    ${denying !== null && html`<p><label class="lab" for=${"why-" + call.id}>Why not?</label><input class="field" id=${"why-" + call.id} value=${denying} onInput=${(ev) => deny(ev.target.value)} placeholder="The assistant reads this" /></p>`}
    <div class="acts2">${call.kind === "approval" ? html`
      ${denying === null ? html`<button type="button" class="btn lg pri" disabled=${d.sending || d.bad.length > 0} onClick=${() => done(d.approve)}>${d.edits.length ? "Approve with " + (d.edits.length === 1 ? "1 change" : d.edits.length + " changes") : chat ? "Yes" : "Approve"}</button>
      ${!call.no_edits && !editing && html`<button type="button" class="btn lg" onClick=${() => edit(true)}>Change</button>`}
      <button type="button" class="btn lg quiet" onClick=${() => deny("")}>${chat ? "No" : "Deny…"}</button>`
      : html`<button type="button" class="btn lg danger" disabled=${d.sending} onClick=${() => done(() => d.deny(denying))}>${chat ? "No" : "Deny"}</button><button type="button" class="btn lg quiet" onClick=${() => deny(null)}>Back</button>`}
      ${!chat && html`<a class="btn lg quiet" href=${href("inbox", { call: call.root_id + "/" + call.id })}>Open in the inbox</a>`}`
    : call.kind === "budget" ? html`<a class="btn lg pri" href=${href("inbox", { call: call.root_id + "/" + call.id })}>Decide in the inbox</a>`
    : html`
      ${call.kind === "client_tool" && known[call.tool] && !editing && html`<button type="button" class="btn lg pri" disabled=${d.sending} onClick=${runHere}>Run it here</button>`}
      ${call.kind === "client_tool" && !editing && html`<button type="button" class="btn lg" onClick=${() => edit(true)}>Give the result</button>`}
      ${editing && html`<button type="button" class="btn lg pri" disabled=${d.sending || d.bad.length > 0 || d.value === undefined} onClick=${() => done(() => d.answer())}>Send the answer</button>`}
      <button type="button" class="btn lg quiet" disabled=${d.sending} onClick=${() => done(() => d.refuse("The user gives no answer."))}>No answer</button>`}</div>`}</section>`;
}
