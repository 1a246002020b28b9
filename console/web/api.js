// Requests to the HTTP API, who is signed in, and what the server offers.

import { signal } from "./html.js";
import { root } from "./router.js";
import { exact } from "./exact.js";

// base is the address of the API. The page names it relative to its root.
const place = document.querySelector('meta[name="cairn-api"]')?.content || "../";
export const base = new URL(place, new URL(root, location.href)).href;

// Problem is an answer that is an error. Its status is 0 if the server could not be reached.
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || (status ? "The server answered with " + status + "." : "The server cannot be reached."));
    this.status = status;
    this.code = body.code || "";
    this.field = body.field || "";
    this.calls = body.calls || [];
  }
}

let token = "";
try { token = sessionStorage.getItem("cairn-token") || ""; } catch { /* a page may not be allowed to keep anything */ }

function setToken(text) {
  token = text;
  try { text ? sessionStorage.setItem("cairn-token", text) : sessionStorage.removeItem("cairn-token"); } catch { /* for this page only, then */ }
}

// newID returns a random id. A page that was loaded over plain http has only this source of randomness.
export function newID() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// behind is how much the clock of this machine differs from the server's, in milliseconds.
let behind = 0;
export const now = () => Date.now() + behind;

function clock(res) {
  const date = Date.parse(res.headers.get("Date") || "");
  if (!Number.isNaN(date) && Math.abs(date - Date.now() - behind) > 2000) behind = date - Date.now();
}

// unreached is since when the server does not answer; null if it does.
export const unreached = signal(null);
const lose = () => { unreached.value ??= now(); };

// raw makes a request. Every POST has an idempotency key: a caller that repeats one passes the key of the first.
export async function raw(method, path, body, { key, signal } = {}) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method === "POST") headers["Idempotency-Key"] = key || newID();
  const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  try {
    const res = await fetch(new URL(path, base), { method, headers, body: text, signal, cache: "no-store" });
    clock(res);
    unreached.value = null;
    return res;
  } catch (err) {
    if (signal?.aborted) throw err;
    lose();
    throw new Problem(0);
  }
}

async function answer(res, parse) {
  const text = await res.text();
  let value = {};
  try { value = text ? parse(text) : {}; } catch { value = { detail: text.trim().slice(0, 500) }; }
  if (res.ok) return value;
  if (res.status === 401) signedOut.value = true;
  throw new Problem(res.status, value);
}

// patience is how long an answer may take, in milliseconds. A browser has few connections to a host: a request whose
// connection is dead must not hold one for minutes.
const patience = 30_000;

// ask makes a request and returns what its answer has.
export async function ask(method, path, body, options = {}) {
  const late = new AbortController(), timer = setTimeout(() => late.abort(), patience);
  const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
  try {
    return await answer(await raw(method, path, body, { ...options, signal }), JSON.parse);
  } catch (err) {
    if (!late.signal.aborted || options.signal?.aborted) throw err;
    lose();
    throw new Problem(0);
  } finally {
    clearTimeout(timer);
  }
}

// get reads a list or an object. Parameters with empty values are left out; lists are repeated.
export function get(path, params = {}, options) {
  return ask("GET", path + search(params), undefined, options);
}

// getExact is get with numbers as they were written, see exact.js.
export async function getExact(path, options) {
  return answer(await raw("GET", path, undefined, options), exact);
}

export function search(params) {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of [].concat(value)) if (one !== undefined && one !== null && one !== "") out.append(name, one);
  }
  const text = out.toString();
  return text ? "?" + text : "";
}

export const of = (...parts) => parts.map(encodeURIComponent).join("/");

// file returns a file of the server's as an address that the page may show.
export async function file(path) {
  const res = await raw("GET", path);
  if (!res.ok) throw new Problem(res.status);
  const bytes = await res.blob();
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(bytes);
  });
}

// Who is signed in. An older server has no sign-in: the tab then keeps the token, and the roles are not known.

export const signedOut = signal(false);
export const unlinked = signal(false); // whether a link did not sign in
export const me = signal({ user: "", roles: null, known: false });

const absent = (err) => err instanceof Problem && (err.status === 404 || err.status === 405);

// load reads who is signed in. It fails if nobody is.
export async function load() {
  const offers = get("agents", { limit: 100 }).then(({ items }) => ({ runs: items.some((a) => a.startable !== false), memory: items.some((a) => a.memory) }), () => ({}));
  let who;
  try {
    who = await ask("GET", "console/session");
  } catch (err) {
    if (!absent(err)) throw err;
    await get("sessions", { limit: 1 });
    who = { user: "", roles: null };
  }
  me.value = { ...who, ...await offers, known: true };
  signedOut.value = false;
}

// follow signs in by the link that the address is, if the console has links and this is one; else it is load.
export async function follow() {
  const secret = document.querySelector('meta[name="cairn-links"]') && /^#link=(.+)$/.exec(location.hash)?.[1];
  if (!secret) return load();
  history.replaceState(null, "", location.pathname + location.search);
  await signIn(secret).catch((err) => load().catch(() => { // a browser that is signed in stays so
    unlinked.value = true;
    throw err;
  }));
}

export async function signIn(text) {
  token = text; // not kept: a reload in between must not send it again
  try {
    await ask("POST", "console/session", {});
    setToken(""); // the browser has a cookie now
  } catch (err) {
    if (!absent(err)) {
      setToken("");
      throw err;
    }
    setToken(text);
  }
  await load().catch((err) => {
    setToken("");
    throw err;
  });
}

export async function signOut() {
  await ask("DELETE", "console/session").catch(() => {});
  setToken("");
  signedOut.value = true;
}

// may reports whether the signed-in user has one of the roles, as far as the page knows.
export function may(...roles) {
  const has = me.value.roles;
  return !has || !has.length || roles.some((r) => has.includes(r)) || has.includes("admin");
}

// mayRun reports whether the signed-in user may begin and resume turns here: a console over a store has no assistants.
export const mayRun = () => may("user") && me.value.runs !== false;

// offered reads what a server may not offer; the answer is null then.
export async function offered(path, params, options) {
  try {
    return await get(path, params, options);
  } catch (err) {
    if (absent(err) || err.status === 400) return null;
    throw err;
  }
}

// counts returns how many sessions there are by status, as { status: { count, more } }; null if the server does not count.
export async function counts(params, options) {
  const out = await offered("session-counts", params, options);
  return out && Object.fromEntries(out.statuses.map((s) => [s.status, s]));
}

export const operations = (options) => offered("operations", {}, options);

let situations = true; // whether the lists of the server have situations

// sessions lists sessions, each with its situation if the server knows it.
export async function sessions(params, options) {
  if (!situations) return get("sessions", params, options);
  try {
    return await get("sessions", { ...params, include: "situation" }, options);
  } catch (err) {
    if (err.status !== 400 || err.field && err.field !== "include") throw err;
    situations = false;
    return get("sessions", params, options);
  }
}

// status returns a session's status. An older server has no situation: it is put together from what there is.
export async function status(id, options) {
  const s = await get("status", { session_id: id }, options);
  return { ...s, calls: s.calls || [], situation: s.situation || situate(s.session, s.calls || [], s.error) };
}

const waits = { approval: "approval", question: "answer", client_tool: "client_tool", connect: "account", effect: "effect", budget: "budget" };

// situate returns the situation of a session as far as its row, its open calls and its error have it.
export function situate(row, calls = [], error) {
  const s = { since: row.updated_at, step: row.step, run_id: row.run_id, open_calls: row.open_calls, queued: row.queued, verbs: [] };
  const urgent = [...calls].sort((a, b) => (a.deadline || "9") < (b.deadline || "9") ? -1 : 1)[0];
  switch (row.status) {
    case "active":
      return { ...s, kind: row.ending ? "stopping" : "running", step: (row.step || 0) + 1, verbs: ["stop"] };
    case "paused":
      if (!urgent) return { ...s, kind: row.open_calls ? "approval" : "child", until: row.next_deadline, verbs: ["stop"] };
      return { ...s, kind: urgent.session_id === row.id ? waits[urgent.kind] : "child", since: urgent.created_at, until: urgent.deadline, call: urgent, agent: urgent.agent,
        session_id: urgent.session_id, verbs: ["approve", "stop"] };
    case "failed":
      return { ...s, kind: "failed", error, verbs: ["retry"] };
    case "interrupted":
      return { ...s, kind: "stopped", verbs: ["resume"] };
    case "completed":
      return { ...s, kind: row.queued ? "queue" : "done" };
  }
  return { ...s, kind: "new" };
}
