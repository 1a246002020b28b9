// Verbs for all sessions that match a filter: they are counted first, then taken one by one.

import { html, useEffect, useRef, useState } from "./html.js";
import { ask, get, of } from "./api.js";
import { href } from "./router.js";
import { Dialog } from "./parts.js";
import { many, safe, title } from "./format.js";

// verbs are what can be done to many sessions. of are the statuses of the sessions that a verb is for; none means all.
export const verbs = {
  retry: { name: "Retry", doing: "Retrying", done: "retried", of: ["failed"], note: "The last step of each is repeated.", run: (id, options) => ask("POST", "retry", { session_id: id }, options) },
  stop: { name: "Stop", doing: "Stopping", done: "stopped", of: ["active", "paused"], note: "What was said is kept. Open calls are closed without an answer.", run: (id, options) => ask("POST", "interrupt", { session_id: id, reason: "Stopped with all sessions of a list on the console." }, options) },
  delete: { name: "Delete", doing: "Deleting", done: "deleted", of: [], danger: true, note: "Conversations and their sub-agents’ are removed. They can be restored for a while.", run: (id, options) => ask("DELETE", "sessions/" + of(id), undefined, options) },
};

// most is how many sessions are taken at once, and width how many requests are under way.
const most = 10_000, width = 6;

// narrow returns the filter of the list for the sessions that a verb is for; null if the list has none of those.
export function narrow(filter, verb) {
  const wanted = filter.status ? filter.status.split(",") : [];
  if (wanted.includes("deleted") || wanted.includes("expired")) return null;
  const both = wanted.length && verb.of.length ? wanted.filter((s) => verb.of.includes(s)) : wanted.length ? wanted : verb.of;
  return wanted.length && !both.length ? null : { ...filter, status: both.join(",") };
}

// collect reads the sessions that match, and calls on with their number.
async function collect(filter, signal, on) {
  const found = [];
  let cursor;
  do {
    const page = await get("sessions", { ...filter, limit: 100, cursor }, { signal });
    for (const s of page.items) found.push({ id: s.id, title: title(s) });
    cursor = page.next;
    on(Math.min(found.length, most));
  } while (cursor && found.length < most);
  return { found: found.slice(0, most), more: !!cursor || found.length > most };
}

// pause waits, unless the signal is aborted.
const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// each takes the sessions, some at a time, until the signal is aborted. A busy server is asked again.
async function each(list, run, signal, on) {
  let next = 0;
  const work = async () => {
    while (next < list.length && !signal.aborted) {
      const s = list[next++];
      for (let wait = 1000; ; wait = Math.min(wait * 2, 15_000)) {
        try {
          await run(s.id);
          on(s, null);
        } catch (err) {
          if (err.status !== 429 && err.status !== 503) on(s, err);
          else {
            await pause(wait * (0.75 + Math.random() / 2), signal);
            if (!signal.aborted) continue;
          }
        }
        break;
      }
    }
  };
  await Promise.all(Array.from({ length: width }, work));
}

// Bulk is the dialog of a verb for the sessions that a filter selects, which words describe.
export function Bulk({ verb, filter, words, close, done }) {
  const [count, setCount] = useState(0);
  const [all, setAll] = useState(null); // { found, more }
  const [error, fail] = useState(null);
  const [run, setRun] = useState(null); // { ok, errors, ended }
  const ending = useRef(new AbortController());
  useEffect(() => {
    const { signal } = ending.current;
    collect(filter, signal, setCount).then(setAll, (err) => signal.aborted || fail(err));
    return () => ending.current.abort();
  }, []);
  const start = async () => {
    const { signal } = (ending.current = new AbortController()), sum = { ok: 0, errors: [], ended: false };
    setRun({ ...sum });
    await each(all.found, verb.run, signal, (s, err) => {
      if (err) sum.errors.push({ ...s, text: err.message });
      else sum.ok++;
      setRun({ ...sum });
    });
    setRun({ ...sum, ended: true });
    done();
  };
  const stop = () => ending.current.abort();
  const n = all?.found.length ?? 0, sessions = many(n, "session"), taken = run ? run.ok + run.errors.length : 0;
  const busy = run && !run.ended;
  const body = () => {
    if (error) return html`<p class="wrong" role="alert">The sessions could not be counted: ${safe(error.message)}</p>`;
    if (!all) return html`<p role="status">${many(count, "session")} so far…</p>`;
    if (!n) return html`<p>No session matches.</p>`;
    if (!run) return html`<p><b>${sessions}</b>${all.more ? html`, the newest of more. Repeat this for the rest.` : "."} ${verb.note}</p><p class="t2">Sessions that begin to match from now on are left alone. One that has changed in between is taken as it is then, if the verb still applies.</p>`;
    return html`<progress class="bulk" max=${n} value=${taken} aria-label="Progress"></progress><p role="status">${busy ? verb.doing + ": " + taken.toLocaleString("en") + " of " + n.toLocaleString("en") : many(run.ok, "session") + " " + verb.done + (taken < n ? ", " + (n - taken).toLocaleString("en") + " left alone" : "") + "."}
      ${run.errors.length > 0 && html` <span class="wrong">${many(run.errors.length, "error")}.</span>`}</p>`;
  };
  return html`<${Dialog} title=${verb.name + (n ? " " + sessions : " sessions") + (busy || run?.ended ? "" : "?")} close=${() => (busy ? stop() : close())}>
    <p class="sm t2 brk" dir="auto">${safe(words)}</p>${body()}
    ${run?.errors.length > 0 && html`<ul class="errors" aria-label="Errors" tabindex="0">${run.errors.slice(0, 100).map((e) => html`<li key=${e.id}><a class="link" href=${href(["s", e.id])} dir="auto">${e.title}</a>: ${safe(e.text)}</li>`)}${run.errors.length > 100 && html`<li>and ${(run.errors.length - 100).toLocaleString("en")} more</li>`}</ul>`}
    <div class="row end">${busy ? html`<button type="button" class="btn" onClick=${stop}>Stop here</button>` : html`<button type="button" class="btn" onClick=${close}>${run ? "Close" : "Cancel"}</button>
      ${!run && n > 0 && html`<button type="button" class=${"btn " + (verb.danger ? "danger" : "pri")} onClick=${start}>${verb.name} ${sessions}</button>`}`}</div><//>`;
}
