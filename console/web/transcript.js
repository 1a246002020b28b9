// What a session has said and done, as a function of a snapshot and of the events that follow it. It knows no page and
// imports nothing, so that a test runs it without one.

// begin returns the transcript that a snapshot has.
export function begin(snapshot) {
  const t = {
    session: snapshot.session.id,
    count: snapshot.session.message_count,
    from: snapshot.offset || 0, // the index of the first message that the items are of
    running: snapshot.session.status === "active",
    run: snapshot.session.run_id || "",
    cursor: snapshot.cursor,
    items: [], // what is in the transcript, and then what the steps that are not committed have said so far
    committed: 0, // how many items are in the transcript
    stale: false, // the snapshot is to be read again
    unsettled: true, // what the session waits for, and its row, are to be read again
    state: snapshot.state,
  };
  for (const message of snapshot.messages) add(t, message);
  t.committed = t.items.length;
  return t;
}

// itemsOf are the items of a part of a session's transcript.
export const itemsOf = (id, messages) => begin({ session: { id }, messages }).items;

function add(t, message) {
  const mine = message.role === "user", of = message.run_id || "", id = message.id, time = message.created_at;
  for (const part of message.parts || []) {
    if (part.tool_use) {
      t.items.push({ kind: "tool", of, call: part.tool_use.call_id, tool: part.tool_use.tool, input: part.tool_use.input, state: "called" });
    } else if (part.tool_result) {
      const { call_id, output, is_error, code, edited, artifacts } = part.tool_result;
      result(t, { call_id, data: output, is_error, code, edited });
      for (const a of artifacts || []) t.items.push(file(of, false, { name: a.name, media_type: a.media_type, url: a.url || "" }));
    } else if (part.type === "reasoning") {
      if (part.text) t.items.push({ kind: "thinking", of, text: part.text });
    } else if (part.file) {
      const { name, media_type, data, url } = part.file;
      t.items.push(file(of, mine, { name, media_type, url: data ? "data:" + media_type + ";base64," + data : url }));
    } else if (part.text) {
      const last = t.items.at(-1);
      if (!mine && last && last.kind === "text" && last.of === of && last.id === id) last.text += part.text;
      else t.items.push({ kind: mine ? "user" : "text", of, id, time, text: part.text });
    }
    if (part.sources) cite(t, part.sources);
  }
}

// cite adds sources to the last text.
function cite(t, sources) {
  const item = t.items.findLast((i) => i.kind === "text");
  if (item) item.sources = [...(item.sources || []), ...sources];
}

// file returns the item that shows a file. Where its bytes are is no part of what is compared to know whether it has changed.
function file(of, mine, { name, media_type, url, path }) {
  const item = { kind: "file", of, mine, name: name || media_type, type: media_type, path };
  return Object.defineProperty(item, "url", { value: url || "" });
}

// files returns the items of the files that an event names, which are read from the server.
function files(t, ev, mine) {
  const of = "sessions/" + encodeURIComponent(t.session) + "/messages/" + (ev.index || 0) + "/files/";
  return (ev.files || []).map((f, n) => file(ev.run_id, mine, { ...f, path: f.url ? "" : of + n + "?message_id=" + encodeURIComponent(ev.message_id) }));
}

function result(t, ev) {
  const item = t.items.findLast((i) => i.kind === "tool" && i.call === ev.call_id);
  if (!item) return;
  Object.assign(item, { output: ev.data, state: ev.is_error ? "failed" : "done", code: ev.code });
  if (ev.edited !== undefined) item.edited = ev.edited;
}

// live adds an item of a step that is not committed.
function live(t, ev, item) {
  t.items.push(Object.assign(item, { of: ev.run_id, live: true, run: ev.run_id, step: ev.step }));
  return item;
}

// last returns the item of a kind that a delta belongs to, which may be a new one.
function last(t, ev, kind) {
  const item = t.items[t.items.length - 1];
  if (t.items.length > t.committed && item.kind === kind && item.step === ev.step) return item;
  return live(t, ev, { kind, text: "", began: ev.time });
}

// drop removes what a step and the later ones have said.
function drop(t, ev) {
  t.items = t.items.filter((item, i) => i < t.committed || item.run !== ev.run_id || item.step < ev.step);
}

// commit puts what a step has said, and those before it, into the transcript.
function commit(t, ev) {
  const later = t.items.findIndex((item, i) => i >= t.committed && item.step > ev.step);
  t.committed = later < 0 ? t.items.length : later;
  for (const item of t.items.slice(0, t.committed)) for (const key of ["live", "run", "step"]) delete item[key];
}

// apply takes an event. It returns whether anything is to be shown anew.
export function apply(t, ev, cursor) {
  t.cursor = cursor;
  if (ev.session_id !== t.session) { // of a sub-agent: what it waits for is answered here
    if (ev.type === "tool_approval_request" || ev.type === "tool_call_pending" || ev.type === "tool_end") t.unsettled = true;
    return t.unsettled;
  }
  switch (ev.type) {
    case "run_start":
    case "run_resumed":
      Object.assign(t, { running: true, run: ev.run_id, unsettled: true });
      break;
    case "user_message": {
      if ((ev.index || 0) < t.count) return false;
      const text = ev.text ? [{ kind: "user", of: ev.run_id, id: ev.message_id, time: ev.time, text: ev.text, truncated: ev.truncated }] : [];
      const said = [...text, ...files(t, ev, true)];
      t.items.splice(t.committed, 0, ...said);
      t.committed += said.length;
      break;
    }
    case "artifact":
    case "files": { // behind the words of the reply, before what its tools did
      if ((ev.index || 0) < t.count) return false;
      const behind = ev.type === "artifact" ? (item) => item.step > ev.step : (item) => item.step > ev.step || item.step === ev.step && item.kind === "tool";
      const next = t.items.findIndex((item, i) => i >= t.committed && behind(item));
      const drawn = files(t, ev, false).map((item) => Object.assign(item, { run: ev.run_id, step: ev.step }));
      t.items.splice(next < 0 ? t.items.length : next, 0, ...drawn);
      break;
    }
    case "sources":
      cite(t, ev.sources || []);
      break;
    case "step_start":
      drop(t, ev);
      return false;
    case "text_delta":
      last(t, ev, "text").text += ev.text;
      break;
    case "thinking":
      last(t, ev, "thinking").text += ev.text;
      break;
    case "thinking_end": {
      const item = t.items.findLast((i) => i.kind === "thinking");
      if (item && item.began) item.seconds = (Date.parse(ev.time) - Date.parse(item.began)) / 1000;
      break;
    }
    case "tool_arg_start":
      live(t, ev, { kind: "tool", call: ev.call_id, tool: ev.tool, text: "", state: "asked" });
      break;
    case "tool_arg_delta": {
      const item = t.items.findLast((i) => i.call === ev.call_id);
      if (item) item.text = (item.text || "") + ev.text;
      break;
    }
    case "tool_arg_end":
    case "tool_start": {
      let item = t.items.findLast((i) => i.kind === "tool" && i.call === ev.call_id);
      if (!item) item = live(t, ev, { kind: "tool", call: ev.call_id, tool: ev.tool, input: ev.data });
      if (ev.edited === undefined) item.input = ev.data;
      else item.edited = ev.edited;
      item.state = ev.type === "tool_start" ? "running" : "called";
      break;
    }
    case "tool_end":
      result(t, ev);
      t.unsettled = true;
      break;
    case "tool_approval_request":
    case "tool_call_pending": {
      const item = t.items.findLast((i) => i.kind === "tool" && i.call === (ev.tool_call_id || ev.call_id));
      if (item) item.state = "waiting";
      t.unsettled = true;
      break;
    }
    case "step_discarded":
      drop(t, ev);
      break;
    case "step_committed":
      commit(t, ev);
      break;
    case "run_end":
      t.items.length = t.committed;
      t.running = false;
      t.unsettled = true;
      if (ev.status === "failed") {
        t.items.push({ kind: "error", of: ev.run_id, code: ev.error?.code, text: ev.error?.message || "The turn has failed." });
        t.committed++;
      } else if (ev.status === "interrupted") {
        t.items.push({ kind: "note", of: ev.run_id, text: "Stopped. What was said is kept." });
        t.committed++;
      }
      break;
    case "queued":
    case "dequeued":
    case "context_changed":
      t.unsettled = true;
      break;
    case "state_patch":
    case "rewound":
    case "session_deleted":
      if (ev.type !== "state_patch") t.stale = true;
      else t.patched = true;
      break;
    default:
      return false;
  }
  return true;
}

// turns groups the items by turn: a run that begins one, with the runs that resume or retry it. runs are the records, oldest
// first; a run that is not among them counts as the turn under way.
export function turns(t, runs) {
  const first = firsts(runs), list = [];
  for (const item of t.items) {
    const key = first.get(item.of) || item.of;
    if (!list.length || list.at(-1).key !== key && item.of) list.push({ key, items: [] });
    list.at(-1).items.push(item);
  }
  return list;
}

// firsts are the first runs of the turns that runs belong to, by run.
function firsts(runs) {
  const first = new Map();
  for (const r of runs) first.set(r.id, r.previous_run_id && first.get(r.previous_run_id) || r.id);
  return first;
}

// runsOf are the runs of each turn, by the key of the turn.
export function runsOf(runs) {
  const first = firsts(runs);
  return Map.groupBy(runs, (r) => first.get(r.id));
}
