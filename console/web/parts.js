// Small parts that every page uses.

import { html, signal, useEffect, useRef, useSignal, useState } from "./html.js";
import { Icon } from "./icons.js";
import { at, ago, left, safe, whole } from "./format.js";

// The words of a status, see the tones of style.css.
export const statuses = {
  paused: { tone: "wait", icon: "wait", word: "Waiting" },
  waiting: { tone: "wait", icon: "wait", word: "Waiting" },
  failed: { tone: "fail", icon: "fail", word: "Failed" },
  active: { tone: "run", icon: "run", word: "Running" },
  running: { tone: "run", icon: "run", word: "Running" },
  completed: { tone: "done", icon: "done", word: "Done" },
  done: { tone: "done", icon: "done", word: "Done" },
  interrupted: { tone: "stop", icon: "stop", word: "Stopped" },
  stopped: { tone: "stop", icon: "stop", word: "Stopped" },
  idle: { tone: "idle", icon: "idle", word: "New" },
  expired: { tone: "idle", icon: "void", word: "Expired" },
  deleted: { tone: "idle", icon: "void", word: "Deleted" },
};

export function Status({ status, word }) {
  const s = statuses[status] || statuses.idle;
  return html`<span class=${"st " + s.tone}><${Icon} name=${s.icon} />${word || s.word}</span>`;
}

// Time is a moment, with the whole of it on hover.
export function Time({ time, since }) {
  return html`<time datetime=${time} title=${whole(time)}>${since ? ago(time) : at(time)}</time>`;
}

// Due is the time left until a deadline.
export function Due({ time }) {
  const due = left(time);
  return due && html`<span class=${"due " + due.tone} title=${"until " + whole(time)}>${due.text}</span>`;
}

// Text is foreign text on one line.
export function Text({ text, class: className = "clip" }) {
  const shown = safe(text);
  return html`<span class=${className} dir="auto" title=${shown}>${shown}</span>`;
}

// copy puts a text on the clipboard. Over plain http there is no clipboard API: the browser's own command copies then.
export async function copy(text) {
  if (navigator.clipboard && isSecureContext) {
    try { return await navigator.clipboard.writeText(text); } catch { /* not allowed: the command may be */ }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "vh";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function Copy({ text, label = "Copy" }) {
  const [done, set] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => set(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return html`<button type="button" class="btn quiet sm" onClick=${() => copy(text).then(() => set(true))}><${Icon} name=${done ? "done" : "copy"} />${done ? "Copied" : label}</button>`;
}

// Empty says why a list is empty, with one way out.
export function Empty({ title, text, children }) {
  return html`<div class="empty"><p class="b">${title}</p>${text && html`<p class="t2">${text}</p>`}${children}</div>`;
}

// Panel is a table with a heading. head has a name and a class of each column, rows the cells; none replaces no rows.
export function Panel({ title, note, head, rows, none }) {
  const [shown, show] = useState(50);
  return html`<section class="panel" aria-label=${title}><div class="ph"><h2>${title}</h2>${note && html`<span class="t3 sm clip">${note}</span>`}</div>
    ${rows.length === 0 ? html`<p class="pad t3">${none}</p>` : html`<table class="t"><thead><tr>${head.map(([name, kind]) => html`<th scope="col" class=${kind || ""}>${name}</th>`)}</tr></thead>
      <tbody>${rows.slice(0, shown).map((cells) => html`<tr>${cells.map((c, i) => html`<td class=${head[i][1] || ""}>${c}</td>`)}</tr>`)}</tbody></table>${rows.length > shown && html`<div class="pager"><button type="button" class="btn" onClick=${() => show(shown + 50)}>Load more</button></div>`}`}</section>`;
}

// Failure is a request that failed, with a button that repeats it.
export function Failure({ what, error, again }) {
  const who = error.status === 0 ? "" : error.status === 404 ? "It does not exist, or it is not yours." : error.message;
  return html`<div class="empty" role="alert"><p class="b">${what}</p><p class="t2">${error.status === 0 ? error.message : who}</p>
    ${again && html`<button type="button" class="btn" onClick=${again}><${Icon} name="retry" />Try again</button>`}</div>`;
}

// Loading shows grey lines after 300 ms: faster loads show nothing.
export function Loading({ lines = 4 }) {
  const [slow, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="loading" aria-busy="true" aria-label="Loading">${slow && Array.from({ length: lines }, (_, i) => html`<div class=${"skel s" + i % 3}></div>`)}</div>`;
}

// Toasts: what has happened, with at most one verb. Errors stay until they are closed.

const toasts = signal([]);
let made = 0;

// toast shows a message. verb is { name, run }.
export function toast(text, { error = false, verb } = {}) {
  const id = ++made;
  toasts.value = [...toasts.value.slice(-3), { id, text, error, verb }];
}

const dismiss = (id) => { toasts.value = toasts.value.filter((t) => t.id !== id); };

function Toast({ t }) {
  const [held, hold] = useState(false);
  useEffect(() => {
    const timer = !held && !t.error && setTimeout(() => dismiss(t.id), 6000);
    return () => clearTimeout(timer);
  }, [held]);
  return html`<div class="toast" onMouseEnter=${() => hold(true)} onMouseLeave=${() => hold(false)} onFocusin=${() => hold(true)} onFocusout=${() => hold(false)}>
    <span class=${"st " + (t.error ? "fail" : "done")}><${Icon} name=${t.error ? "fail" : "done"} /></span><span class="grow brk" dir="auto">${safe(t.text)}</span>
    ${t.verb && html`<button type="button" class="btn quiet" onClick=${() => { dismiss(t.id); t.verb.run(); }}>${t.verb.name}</button>`}
    <button type="button" class="btn quiet icon" aria-label="Close" onClick=${() => dismiss(t.id)}><${Icon} name="x" /></button></div>`;
}

export function Toasts() {
  const list = useSignal(toasts);
  return html`<div class="toasts" role="region" aria-label="Messages"><div role="status" aria-live="polite">${list.map((t) => html`<${Toast} key=${t.id} t=${t} />`)}</div></div>`;
}

// Dialog is a modal dialog. The browser traps the focus in it and returns it.
export function Dialog({ title, close, children }) {
  const ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog class="dlg" ref=${ref} aria-labelledby="dlg-title" onCancel=${(ev) => { ev.preventDefault(); close(); }}
    onClick=${(ev) => ev.target === ref.current && close()}><div class="dlgin"><h2 id="dlg-title">${title}</h2>${children}</div></dialog>`;
}

// Menu is a button with a list of actions: [{ name, run, danger }].
export function Menu({ label, actions }) {
  const [open, set] = useState(false);
  const ref = useRef();
  useEffect(() => {
    if (!open) return;
    ref.current.querySelector(".menu button")?.focus();
    const away = (ev) => ref.current?.contains(ev.target) || set(false);
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const keys = (ev) => {
    const all = [...ref.current.querySelectorAll(".menu button")], i = all.indexOf(document.activeElement);
    if (ev.key === "Escape") {
      set(false);
      ref.current.querySelector("button").focus();
    } else if (ev.key === "ArrowDown") all[(i + 1) % all.length].focus();
    else if (ev.key === "ArrowUp") all[(i + all.length - 1) % all.length].focus();
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  };
  return html`<div class="menuof" ref=${ref} onKeyDown=${open ? keys : undefined}><button type="button" class="btn icon" aria-label=${label} aria-expanded=${String(open)} aria-haspopup="menu" onClick=${() => set(!open)}><${Icon} name="more" /></button>
    ${open && html`<div class="menu" role="menu">${actions.filter(Boolean).map((a) => html`<button type="button" role="menuitem" class=${a.danger ? "danger" : ""} onClick=${() => { set(false); a.run(); }}>${a.name}</button>`)}</div>`}</div>`;
}

// said is what a screen reader announces next: at most one state in 5 seconds.
export const said = signal("");
let spoke = 0, pending;
export function announce(text) {
  clearTimeout(pending);
  const wait = Math.max(0, spoke + 5000 - Date.now());
  pending = setTimeout(() => {
    spoke = Date.now();
    said.value = text;
  }, wait);
}

// minute counts minutes, for components that show how long something is ago.
export const minute = signal(0);
setInterval(() => { if (document.visibilityState === "visible") minute.value++; }, 20_000);
