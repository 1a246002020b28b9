// What a session has said and done, as a function of a snapshot and of the events that follow it. It knows no page.

// begin returns the transcript that a snapshot has.
export function begin(snapshot) {
  const t = {
    session: snapshot.session.id,
    count: snapshot.session.message_count,
    running: snapshot.session.status === "active",
    run: snapshot.session.run_id || "",
    cursor: snapshot.cursor,
    items: [], // what is in the transcript, and then what the steps that are not committed have said so far
    committed: 0, // how many items are in the transcript
    stale: false, // the snapshot is to be read again
    unsettled: true, // what the session waits for is to be asked again
  };
  for (const message of snapshot.messages) add(t, message);
  t.committed = t.items.length;
  return t;
}

function add(t, message) {
  const mine = message.role === "user";
  for (const part of message.parts || []) {
    if (part.tool_use) {
      t.items.push({ kind: "tool", call: part.tool_use.call_id, tool: part.tool_use.tool, input: part.tool_use.input, state: "called" });
    } else if (part.tool_result) {
      result(t, part.tool_result.call_id, part.tool_result.output, part.tool_result.is_error);
    } else if (part.type === "thinking") {
      if (part.text) t.items.push({ kind: "thinking", text: part.text });
    } else if (part.file) {
      const { name, media_type, data, url } = part.file;
      t.items.push(file(mine, { name, media_type, url: data ? "data:" + media_type + ";base64," + data : url }));
    } else if (part.text) {
      t.items.push({ kind: mine ? "user" : "text", text: part.text });
    }
  }
}

// file returns the item that shows a file. Where its bytes are is no part of what is compared to know whether it has changed.
function file(mine, { name, media_type, url, path }) {
  const item = { kind: "file", mine, name: name || media_type, type: media_type, path };
  return Object.defineProperty(item, "url", { value: url || "" });
}

// files returns the items of the files that an event names, which are read from the server.
function files(t, ev, mine) {
  const of = "/sessions/" + encodeURIComponent(t.session) + "/messages/" + (ev.index || 0) + "/files/";
  return (ev.files || []).map((f, n) => file(mine, { ...f, path: f.url ? "" : of + n + "?message_id=" + encodeURIComponent(ev.message_id) }));
}

function result(t, call, output, failed) {
  const item = t.items.findLast((i) => i.kind === "tool" && i.call === call);
  if (item) Object.assign(item, { output, state: failed ? "failed" : "done" });
}

// live adds an item of a step that is not committed.
function live(t, ev, item) {
  t.items.push(Object.assign(item, { live: true, run: ev.run_id, step: ev.step }));
  return item;
}

// last returns the item of a kind that a delta belongs to, which may be a new one.
function last(t, ev, kind) {
  const item = t.items[t.items.length - 1];
  if (t.items.length > t.committed && item.kind === kind && item.step === ev.step) return item;
  return live(t, ev, { kind, text: "" });
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
      const said = [...(ev.text ? [{ kind: "user", text: ev.text }] : []), ...files(t, ev, true)];
      t.items.splice(t.committed, 0, ...said);
      t.committed += said.length;
      break;
    }
    case "files": { // behind the words of the reply, before what its tools did
      if ((ev.index || 0) < t.count) return false;
      const next = t.items.findIndex((item, i) => i >= t.committed && (item.step > ev.step || item.step === ev.step && item.kind === "tool"));
      const drawn = files(t, ev, false).map((item) => Object.assign(item, { run: ev.run_id, step: ev.step }));
      t.items.splice(next < 0 ? t.items.length : next, 0, ...drawn);
      break;
    }
    case "step_start":
      drop(t, ev);
      return false;
    case "text_delta":
      last(t, ev, "text").text += ev.text;
      break;
    case "thinking":
      last(t, ev, "thinking").text += ev.text;
      break;
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
      if (!item) item = live(t, ev, { kind: "tool", call: ev.call_id, tool: ev.tool });
      Object.assign(item, { input: ev.data, state: ev.type === "tool_start" ? "running" : "called" });
      break;
    }
    case "tool_end":
      result(t, ev.call_id, ev.data, ev.is_error);
      t.unsettled = true;
      break;
    case "tool_approval_request":
    case "tool_call_pending": {
      const item = t.items.findLast((i) => i.kind === "tool" && i.call === ev.call_id);
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
        t.items.push({ kind: "error", text: (ev.error && ev.error.message) || "The turn has failed." });
        t.committed++;
      } else if (ev.status === "interrupted") {
        t.items.push({ kind: "note", text: "Stopped." });
        t.committed++;
      }
      break;
    case "rewound":
    case "session_deleted":
      t.stale = true;
      break;
    default:
      return false;
  }
  return true;
}
