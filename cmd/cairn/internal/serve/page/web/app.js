// The page: it shows sessions and a transcript, says what its user says, and answers what the assistant waits for.

import { begin, apply } from "/page/transcript.js";
import { ask, follow, hasToken, Problem, read, setToken } from "/page/stream.js";
import { known } from "/page/tools.js";

const $ = (id) => document.getElementById(id);

// h makes an element. Text is never read as HTML.
function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name in el) el[name] = value;
    else el.setAttribute(name, value);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

let assistants = [];
let session = ""; // the one that is shown; empty for one that begins with the next message
let transcript = null;
let calls = [];
let connection = "";
let watching = new AbortController();
let painting = 0;

const pretty = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2));

function problem(err) {
  if (err instanceof Problem && err.status === 401) return enter();
  $("problem").textContent = err ? err.message : "";
  $("problem").hidden = !err;
}

// The token.

function enter() {
  setToken("");
  if (!$("enter").open) $("enter").showModal();
}

$("enter").addEventListener("cancel", (ev) => ev.preventDefault());
$("enter-form").addEventListener("submit", () => {
  setToken($("token").value.trim());
  $("token").value = "";
  started = start();
});
$("leave").addEventListener("click", () => {
  setToken("");
  location.hash = "";
  location.reload();
});

// Sessions.

async function sessions() {
  const page = await ask("GET", "/sessions?limit=50");
  $("sessions").replaceChildren(...page.items.map((s) => h("li", null, h("button", {
    type: "button", "aria-current": String(s.id === session), onclick: () => { location.hash = s.id; },
  }, h("span", null, s.title || s.opening || s.id), h("small", null, s.agent + " · " + new Date(s.updated_at).toLocaleString([], { dateStyle: "short", timeStyle: "short" }))))));
  const mine = page.items.find((s) => s.id === session);
  $("title").textContent = mine ? mine.title || mine.opening || mine.id : session || "New session";
}

// place is the sequence of the event that a cursor is behind.
const place = (cursor) => Number(cursor.slice(cursor.lastIndexOf(".") + 1));

// show shows a session from its snapshot on, and follows it until another one is shown. The events up to the sequence seen, which
// the stream may repeat, are no reason to read the snapshot again.
async function show(id, seen = 0) {
  watching.abort();
  watching = new AbortController();
  const { signal } = watching;
  session = id;
  transcript = null;
  calls = [];
  connection = "";
  problem(null);
  paint();
  if (!id) {
    $("title").textContent = "New session";
    await sessions().catch(problem);
    return;
  }
  try {
    const [snapshot] = await Promise.all([ask("GET", "/sessions/" + encodeURIComponent(id) + "/snapshot"), sessions()]);
    if (signal.aborted) return;
    transcript = begin(snapshot);
    paint(true);
    const ended = await follow(id, transcript.cursor, signal, (event, cursor) => {
      const was = transcript.running;
      if (apply(transcript, event, cursor)) repaint();
      if (was !== transcript.running) sessions().catch(problem);
      if (transcript.stale && place(cursor) > seen) return show(id, place(cursor));
      transcript.stale = false;
    }, (state) => { connection = state; repaint(); });
    if (ended && ended.status === 410) return show(id); // the log has been trimmed
    if (ended) throw ended;
  } catch (err) {
    if (!signal.aborted) problem(err);
  }
}

// Showing.

function repaint() {
  if (!painting) painting = requestAnimationFrame(() => { painting = 0; paint(); });
}

const states = { asked: "is being asked for", called: "", running: "running…", waiting: "waiting", done: "done", failed: "failed" };

const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

// picture shows a file: an image of the session's as it is, any other as a link.
function picture(item) {
  const className = item.mine ? "file mine" : "file";
  const web = /^https?:/i.test(item.url);
  if (web) return h("p", { className }, h("a", { href: item.url, target: "_blank", rel: "noopener noreferrer" }, item.name));
  const el = pictures.includes(item.type) ? h("img", { alt: item.name }) : h("a", { download: item.name }, item.name);
  const place = (url) => { el[el.tagName === "IMG" ? "src" : "href"] = url; };
  if (item.url.startsWith("data:")) place(item.url);
  else if (item.path) read(item.path).then(place, () => el.replaceWith("[" + item.name + "]"));
  return h("p", { className }, el);
}

function element(item) {
  switch (item.kind) {
    case "tool":
      return h("details", { className: "tool " + item.state },
        h("summary", null, h("code", null, item.tool), h("span", { className: "fine" }, states[item.state] || "")),
        h("pre", null, item.input === undefined ? item.text || "" : pretty(item.input)),
        item.output === undefined ? null : h("pre", null, pretty(item.output)));
    case "thinking":
      return h("details", { className: "thinking" }, h("summary", null, "Reasoning"), h("pre", null, item.text));
    case "file":
      return picture(item);
    case "error":
    case "note":
      return h("p", { className: item.kind === "error" ? "error" : "fine" }, item.text);
  }
  return h("article", { className: item.kind + (item.live ? " live" : "") }, h("div", { className: "text" }, item.text));
}

const shown = []; // for each item what it was when its element was made

function paint(whole) {
  const log = $("log");
  const items = transcript ? transcript.items : [];
  const atEnd = whole || log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  if (!items.length) {
    shown.length = 0;
    log.replaceChildren(h("p", { className: "empty" }, session ? "" : "Say something to begin."));
  } else if (!shown.length) {
    log.replaceChildren();
  }
  items.forEach((item, i) => {
    const key = JSON.stringify(item);
    if (shown[i] === key) return;
    const next = element(item);
    const before = log.children[i];
    if (before) {
      if (before.open) next.open = true;
      before.replaceWith(next);
    } else {
      log.append(next);
    }
    shown[i] = key;
  });
  if (items.length) {
    while (log.children.length > items.length) log.lastChild.remove();
    shown.length = items.length;
  }
  log.setAttribute("aria-busy", String(!!transcript && transcript.running));
  if (atEnd) log.scrollTop = log.scrollHeight;
  $("stop").hidden = !(transcript && (transcript.running || calls.length));
  $("state").textContent = connection === "reconnecting" ? "reconnecting…" : !transcript ? "" : transcript.running ? "answering…" : calls.length ? "waiting for you" : "";
  if (transcript && transcript.unsettled) {
    transcript.unsettled = false;
    settle();
  }
}

let asked = 0; // how often settle has asked; only the last answer counts

// settle asks what the session waits for, and shows a card for each.
async function settle() {
  const of = session, mine = ++asked;
  try {
    const status = await ask("GET", "/status?session_id=" + encodeURIComponent(of));
    if (of !== session || mine !== asked) return;
    calls = status.calls || [];
  } catch (err) {
    if (!(err instanceof Problem && err.status === 404)) problem(err);
    return;
  }
  const cards = new Map([...$("calls").children].map((el) => [el.dataset.call, el]));
  $("calls").replaceChildren(...calls.map((call) => cards.get(call.id) || card(call)));
  repaint();
}

// card is what a pending call is answered with.
function card(call) {
  const approval = call.kind === "approval";
  const text = h("textarea", { ariaLabel: approval ? "Arguments" : "Result as JSON", spellcheck: false, readOnly: approval && !!call.no_edits });
  text.value = approval ? pretty(call.input) : "";
  const wrong = h("p", { className: "wrong", role: "alert" });
  const row = h("div", { className: "row" });
  const noEdits = text.readOnly;
  const sending = (on) => { // what is typed into a card that is about to go would be lost
    for (const b of row.children) b.disabled = on;
    text.readOnly = on || noEdits;
  };
  const send = async (answer) => {
    sending(true);
    wrong.textContent = "";
    try {
      const root = call.root_id;
      const receipt = await ask("POST", "/submit-tool-result", { session_id: root, call_id: call.id, ...answer });
      if (receipt.ready) await ask("POST", "/resume", { session_id: root }).catch((err) => { if (err.status !== 409) throw err; });
      await settle();
    } catch (err) {
      wrong.textContent = err.message;
      sending(false);
    }
  };
  const json = () => {
    try {
      return JSON.parse(text.value);
    } catch {
      wrong.textContent = "This is not valid JSON.";
    }
  };
  const button = (label, className, onclick) => h("button", { type: "button", className, onclick }, label);
  if (approval) {
    const answer = (approved, more) => send({ type: "approval-response", approval_id: call.approval_id, approved, ...more });
    row.append(
      button("Approve", "approve", () => {
        const input = json();
        if (input !== undefined) answer(true, text.value === pretty(call.input) ? {} : { input });
      }),
      button("Deny", "bad deny", () => answer(false, { reason: "The user has denied it." })));
  } else {
    const type = call.kind === "client_tool" ? "client-tool-result" : "answer";
    const field = type === "answer" ? "value" : "result";
    const run = type === "client-tool-result" && known[call.tool];
    if (run) {
      row.append(button("Run it here", "run", async () => {
        try {
          await send({ type, result: await run(call.input) });
        } catch (err) {
          await send({ type, error: err.message });
        }
      }));
    }
    row.append(
      button("Send this", run ? "quiet" : "", () => {
        const value = json();
        if (value !== undefined) send({ type, [field]: value });
      }),
      button("Refuse", "bad", () => send({ type, error: "The user has refused." })));
  }
  const heading = { approval: "May it call ", client_tool: "It asks this browser to run ", question: "A question of " }[call.kind] || "It waits for ";
  const el = h("div", { className: "call" },
    h("h3", null, heading, h("code", null, call.tool), approval ? "?" : "", call.session_id === session ? "" : " (for " + call.agent + ")"),
    call.prompt ? h("p", null, call.prompt) : null,
    approval || !call.input ? null : h("pre", null, pretty(call.input)), text, wrong, row);
  el.dataset.call = call.id;
  return el;
}

// Saying.

// newID returns an id for a session. A page that was loaded over plain http has no randomUUID.
function newID() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

$("say").addEventListener("submit", async (ev) => {
  ev.preventDefault();
  const text = $("text").value.trim();
  if (!text) return;
  $("send").disabled = true;
  problem(null);
  try {
    await started; // the assistants are known
    const id = session || newID();
    await ask("POST", "/start", { session_id: id, agent: session ? "" : $("assistant").value, input: { text } });
    $("text").value = "";
    if (!session) location.hash = id;
  } catch (err) {
    problem(err);
  } finally {
    $("send").disabled = false;
    $("text").focus();
  }
});

$("text").addEventListener("keydown", (ev) => {
  if (ev.key === "Enter" && !ev.shiftKey && !ev.isComposing) {
    ev.preventDefault();
    $("say").requestSubmit();
  }
});

$("stop").addEventListener("click", async () => {
  try {
    await ask("POST", "/interrupt", { session_id: session, run_id: transcript.run, reason: "The user has stopped it." });
    await settle();
  } catch (err) {
    problem(err);
  }
});

$("new").addEventListener("click", () => {
  if (location.hash.length > 1) location.hash = "";
  else show("");
  $("text").focus();
});

const about = () => { $("about").textContent = (assistants.find((a) => a.name === $("assistant").value) || {}).description || ""; };
$("assistant").addEventListener("change", about);

const wanted = () => decodeURIComponent(location.hash.slice(1));
addEventListener("hashchange", () => show(wanted()));

async function start() {
  try {
    assistants = await ask("GET", "/page/assistants");
  } catch (err) {
    return problem(err);
  }
  $("leave").hidden = !hasToken();
  $("assistant").replaceChildren(...assistants.map((a) => h("option", { value: a.name }, a.name)));
  about();
  show(wanted());
}

let started = start(); // once more when there is a token
