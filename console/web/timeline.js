// The course of a session as rows of a tree, as a function of its events. It knows no page and imports nothing.

// kept is how many events are kept for the list of raw events, the newest ones.
const kept = 2000;

// silent are the types of events that the timeline does not need: pieces of replies.
const silent = new Set(["text_delta", "thinking", "tool_arg_delta"]);

// types are the types of events that a timeline is made of.
export const types = ["run_start", "run_resumed", "run_end", "step_start", "step_committed", "step_discarded", "step_retry", "usage", "checkpoint", "output", "error",
  "user_message", "context_added", "model_fallback", "compacted", "thinking_end", "sources", "files", "artifact", "memory_saved", "skill_loaded", "tools_missing",
  "tool_arg_start", "tool_arg_end", "tool_start", "tool_end", "effect_sent", "effect_unknown", "effect_settled", "tool_approval_request", "tool_call_pending",
  "budget_warning", "subagent_start", "subagent_end", "state_patch", "custom", "context_changed", "queued", "dequeued", "rewound", "branched",
  "session_deleted", "session_restored"];

// begin returns an empty timeline of a session.
export function begin(session) {
  return { session, events: [], dropped: 0, last: 0, turns: [], runs: new Map(), calls: new Map(), children: new Map() };
}

const ms = (ev) => Date.parse(ev.time);

// row makes a row below another one.
function row(parent, kind, name, ev) {
  const made = { kind, name, key: ev.sequence + ":" + kind, from: ms(ev), to: 0, state: "running", rows: [], events: [], parent };
  if (parent) parent.rows.push(made);
  return made;
}

function close(r, ev, state) {
  if (!r || r.to) return;
  r.to = ms(ev);
  r.state = state;
}

// turnOf returns the turn row of an event's run, and makes one for a run whose beginning is not known.
function turnOf(tl, ev) {
  const known = tl.runs.get(ev.run_id);
  if (known) return known;
  const child = tl.children.get(ev.session_id);
  const turn = child || row(null, "turn", "", ev);
  if (!child) {
    turn.number = tl.turns.length + 1;
    tl.turns.push(turn);
  }
  turn.spans ??= [];
  turn.spans.push({ from: ms(ev), to: 0 });
  tl.runs.set(ev.run_id, turn);
  return turn;
}

const stepOf = (turn, ev) => turn.rows.findLast((r) => r.kind === "step" && r.step === ev.step && r.run === ev.run_id);

// apply takes an event. It returns whether the timeline has changed.
export function apply(tl, ev) {
  if (silent.has(ev.type) || ev.sequence <= tl.last) return false;
  tl.last = ev.sequence;
  tl.events.push(ev);
  if (tl.events.length > kept) {
    tl.events.shift();
    tl.dropped++;
  }
  if (!ev.run_id) return true;
  if (ev.type === "run_resumed" && tl.runs.has(ev.name)) {
    const turn = tl.runs.get(ev.name);
    tl.runs.set(ev.run_id, turn);
    turn.spans.push({ from: ms(ev), to: 0 });
    turn.to = 0;
    turn.state = "running";
    return true;
  }
  const turn = turnOf(tl, ev);
  const step = ev.step ? stepOf(turn, ev) : null;
  switch (ev.type) {
    case "run_start":
      turn.run = ev.run_id;
      break;
    case "user_message":
      turn.name ||= ev.text || "";
      break;
    case "run_end": {
      const span = turn.spans.at(-1);
      if (span && !span.to) span.to = ms(ev);
      const status = String(ev.status);
      turn.to = ms(ev);
      turn.state = status.startsWith("suspended") ? "waiting" : status === "completed" ? "done" : status === "failed" ? "failed" : "stopped";
      turn.error = ev.error;
      turn.by = ev.name || "";
      turn.usage = turn.usage ? turn.usage + (ev.usage?.cost_nanos || 0) : ev.usage?.cost_nanos || 0;
      turn.priced ||= !!ev.usage?.priced_calls;
      for (const r of turn.rows) if (r.kind === "step" && !r.to) close(r, ev, turn.state === "waiting" ? "done" : turn.state);
      break;
    }
    case "step_start": {
      const before = turn.rows.filter((r) => r.kind === "step" && r.step === ev.step && r.run === ev.run_id).length;
      const made = row(turn, "step", "Step " + ev.step, ev);
      Object.assign(made, { step: ev.step, run: ev.run_id, attempt: before + 1, agent: ev.agent });
      break;
    }
    case "step_committed":
      for (const r of turn.rows) if (r.kind === "step" && r.run === ev.run_id && r.step <= ev.step) close(r, ev, "done");
      break;
    case "step_discarded":
      for (const r of turn.rows) {
        if (r.kind !== "step" || r.run !== ev.run_id || r.step < ev.step || r.state === "done" || r.void) continue;
        close(r, ev, "void");
        Object.assign(r, { void: true, state: "void", error: ev.error });
      }
      break;
    case "step_retry": {
      const made = row(turn, "retry", "Attempt " + ev.attempts + " at step " + ev.step + " failed", ev);
      Object.assign(made, { error: ev.error, to: Date.parse(ev.until), state: "failed" });
      break;
    }
    case "usage":
      if (step && ev.usage) step.cost = ev.usage;
      break;
    case "model_fallback":
      if (step) step.model = ev.name;
      break;
    case "tool_arg_start":
      if (step && !step.wrote) step.wrote = ms(ev);
      break;
    case "tool_start": {
      const waiting = tl.calls.get(ev.call_id);
      if (waiting?.kind === "wait") close(waiting, ev, "done");
      const made = row(step || turn, "tool", ev.tool, ev);
      Object.assign(made, { call: ev.call_id, input: ev.data });
      tl.calls.set(ev.call_id, made);
      break;
    }
    case "tool_end": {
      let r = tl.calls.get(ev.call_id);
      if (!r) {
        r = row(step || turn, "tool", ev.tool, ev);
        tl.calls.set(ev.call_id, r);
      }
      close(r, ev, ev.is_error ? "failed" : "done");
      Object.assign(r, { output: ev.data, attempts: ev.attempts, cached: ev.cached, code: ev.code });
      break;
    }
    case "tool_approval_request":
    case "tool_call_pending": {
      const made = row(turn.rows.findLast((r) => r.kind === "step" && !r.void) || turn, "wait", ev.tool, ev);
      Object.assign(made, { call: ev.call_id, input: ev.data, state: "waiting", what: ev.type === "tool_approval_request" ? "approval" : "answer", deadline: ev.deadline });
      tl.calls.set(ev.call_id, made);
      break;
    }
    case "effect_sent":
    case "effect_unknown":
    case "effect_settled": {
      const made = row(tl.calls.get(ev.call_id) || step || turn, "effect", ev.type.slice(7), ev);
      close(made, ev, ev.type === "effect_unknown" ? "failed" : "done");
      break;
    }
    case "subagent_start": {
      const made = tl.calls.get(ev.call_id) || row(step || turn, "tool", ev.tool, ev);
      Object.assign(made, { child: ev.child_id, agent: ev.name, kind: "child", spans: made.spans || [] });
      tl.calls.set(ev.call_id, made);
      tl.children.set(ev.child_id, made);
      break;
    }
    case "subagent_end": {
      const r = tl.children.get(ev.child_id);
      if (!String(ev.status).startsWith("suspended")) close(r, ev, ev.is_error ? "failed" : "done");
      break;
    }
    default:
      turn.events.push(ev.type);
  }
  return true;
}

// scale maps the times of a session to 0…width. It counts working time only: each wait between the runs of a turn, and the
// pause between two turns, has a fixed width or none, so that three days of waiting do not flatten six seconds of work.
export function scale(tl, width, now) {
  const parts = [];
  for (const turn of tl.turns) {
    (turn.spans || []).forEach((s, i, all) => {
      const to = s.to || now;
      parts.push({ from: s.from, to, size: Math.max(1, to - s.from) });
      const next = all[i + 1];
      if (next || turn.state === "waiting") parts.push({ from: to, to: next ? next.from : now, wait: true });
    });
  }
  const waits = parts.filter((p) => p.wait).length;
  const each = waits ? Math.min(24, width * 0.4 / waits) : 0;
  const work = parts.reduce((sum, p) => sum + (p.size || 0), 0) || 1;
  let x = 0;
  for (const p of parts) {
    p.x = x;
    x += p.w = p.wait ? each : p.size / work * (width - each * waits);
  }
  const place = (time) => {
    for (const p of parts) {
      if (time <= p.from) return p.x;
      if (time <= p.to) return p.wait ? p.x + (time >= p.to ? p.w : 0) : p.x + (time - p.from) / p.size * p.w;
    }
    return width;
  };
  return { place, waits: parts.filter((p) => p.wait) };
}

// flat lists the rows to show: those whose parents are open.
export function flat(tl, closed) {
  const out = [];
  const add = (r, depth) => {
    const inner = r.rows.length || r.events.length;
    out.push({ row: r, depth, open: !closed.has(r.key), inner });
    if (closed.has(r.key)) return;
    for (const below of r.rows) add(below, depth + 1);
    if (r.events.length) out.push({ row: { kind: "more", key: r.key + ":more", name: r.events.length, rows: [], events: r.events, parent: r }, depth: depth + 1 });
  };
  for (const turn of tl.turns) add(turn, 0);
  return out;
}
