// A tool's call in a conversation, and values as a table.

import { html, useState } from "./html.js";
import { Num, write } from "./exact.js";
import { Icon } from "./icons.js";
import { Copy, Status } from "./parts.js";
import { useKept } from "./rows.js";
import { brief, safe, span } from "./format.js";

const scalar = (v) => v === null || typeof v !== "object" || v instanceof Num;

const words = (v) => (v === true ? "yes" : v === false ? "no" : v === null || v === "" ? "–" : scalar(v) ? String(v) : nested(v));

// nested is a value within a value on one line.
const nested = (v) => (Array.isArray(v) ? v.map(words).join(", ") : Object.entries(v).map(([k, x]) => k + ": " + words(x)).join(", ")) || "–";

// rowsOf are the rows in which a value is shown: those of an object, or the items of a list.
function rowsOf(v) {
  if (typeof v === "string") {
    try {
      const parsed = JSON.parse(v);
      if (!scalar(parsed)) return rowsOf(parsed);
    } catch { /* a text */ }
  }
  if (scalar(v)) return [["", v]];
  if (Array.isArray(v)) return v.slice(0, 50).map((x, i) => [String(i + 1), scalar(x) ? x : Object.values(x).filter(scalar).join(" · ") || x]);
  return Object.entries(v).slice(0, 50);
}

// Values is a value as a table of keys and values, with its JSON behind a button unless simple is set. before is what a
// reviewer changed.
export function Values({ value, label, before, simple }) {
  const [json, set] = useState(false);
  if (value === undefined) return null;
  const rows = rowsOf(value);
  const text = write(value, "  ");
  const rich = typeof value === "object" && value !== null;
  return html`<div class="values">${!simple && html`<div class="row"><span class="lab grow">${label}${Array.isArray(value) ? " · " + value.length + " items" : ""}</span>
    ${rich && html`<button type="button" class="btn quiet sm" aria-pressed=${String(json)} onClick=${() => set(!json)}>JSON</button>`}<${Copy} text=${typeof value === "string" ? value : text} /></div>`}
    ${json ? html`<pre class="code" tabindex="0">${text}</pre>` : html`<table class="kv"><tbody>${rows.map(([k, v]) => html`<tr>${k && html`<th scope="row" dir="auto">${safe(k)}</th>`}
      <td dir="auto">${before && before[k] !== undefined && words(before[k]) !== words(v) ? html`<s class="t3">${safe(words(before[k]))}</s> → ` : ""}${safe(words(v))}</td></tr>`)}</tbody></table>`}</div>`;
}

const states = { asked: ["running", "Writes"], called: ["idle", "Called"], running: ["running", "Running"], waiting: ["waiting", "Waiting"], done: ["done", "Done"], failed: ["failed", "Failed"] };

// Card is a call of a tool: a line that opens to its arguments and its result.
export function Card({ item, took, open: opened = false }) {
  const [open, set] = useKept(item, opened);
  const [status, word] = item.code === "denied" ? ["stopped", "Denied"] : item.code === "stopped" ? ["stopped", "Stopped"] : states[item.state] || states.called;
  const input = item.edited ?? item.input;
  return html`<div class=${"card" + (status === "waiting" ? " w" : status === "failed" ? " f" : "")}>
    <button type="button" class="h" aria-expanded=${String(open)} onClick=${() => set(!open)}><${Icon} name=${open ? "down" : "right"} /><code class="clip">${safe(item.tool)}</code>
      <span class="clip grow t2" dir="auto">${input === undefined ? safe(item.text || "") : brief(input)}</span>${took !== undefined && html`<span class="t3">${span(took)}</span>`}<${Status} status=${status} word=${word} /></button>
    ${open && html`<div class="body"><${Values} label=${item.edited === undefined ? "Arguments" : "Arguments, changed by a reviewer"} value=${input} before=${item.edited === undefined ? undefined : item.input} />
      ${item.output !== undefined && html`<${Values} label=${item.state === "failed" ? "Why it failed" : "Result"} value=${item.output} />`}</div>`}</div>`;
}

// Note is a call for an end user: one line in words.
export function Note({ item }) {
  const name = safe(item.tool).replace(/[_-]+/g, " ");
  const line = { running: "Runs " + name, waiting: "Asks about " + name, failed: item.code === "denied" ? "Did not run " + name : name + " did not work" }[item.state] || (item.state === "done" ? "Ran " : "Prepares ") + name;
  const icon = { done: "done", failed: "stop", waiting: "wait" }[item.state] || "run";
  return html`<div class="note"><${Icon} name=${icon} /><span class="clip" dir="auto">${line.charAt(0).toUpperCase() + line.slice(1)}${item.input !== undefined && " " + brief(item.input, 40)}</span></div>`;
}
