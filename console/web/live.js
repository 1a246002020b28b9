// A session as a page follows it: its snapshot, the events that follow, its status and its runs.

import { signal } from "./html.js";
import { get, newID, now, of, Problem, raw, ask, status, search } from "./api.js";
import { follow, frames, place } from "./stream.js";
import { Outline, rowsOf } from "./outline.js";
import * as transcript from "./transcript.js";
import * as timeline from "./timeline.js";

// connection is the state of the page's stream: null if there is none, or { lost, since, next, again }.
export const connection = signal(null);

// away is how long a hidden page keeps its stream, in milliseconds.
const away = 60_000;

// end is how many messages at the end of a transcript are read, and grown how many items may be added before it is read anew.
const end = 100, grown = 300;

// outlineOf returns the outline of a session, which is empty.
export function outlineOf(id, signal, changed) {
  return new Outline(id, (path, params) => get("sessions/" + of(id) + "/" + path, params, { signal }), changed);
}

// snapshotOf reads the end of a session's transcript.
export const snapshotOf = (id, options) => get("sessions/" + of(id) + "/snapshot", { last: end }, options);

// events are the events after which a run does something else, and pieces those of a reply.
const events = new Set(["step_start", "tool_start", "tool_end", "subagent_start", "subagent_end", "step_discarded", "step_retry"]);
const pieces = new Set(["text_delta", "thinking"]);

export class Live {
  constructor(id, { course = false, whole = false } = {}) {
    this.id = id;
    this.course = course; // whether the timeline is wanted
    this.whole = whole; // whether t has the whole transcript, rather than its end
    this.tick = signal(0);
    this.t = null;
    this.outline = null; // the transcript before t
    this.life = new AbortController();
    this.timeline = null;
    this.status = null;
    this.runs = [];
    this.queue = [];
    this.branches = [];
    this.pending = []; // messages that are not in the transcript yet
    this.error = null;
    this.ending = new AbortController();
    this.shown = () => this.visible();
    document.addEventListener("visibilitychange", this.shown);
    this.open();
  }

  close() {
    this.closed = true;
    this.life.abort();
    this.ending.abort();
    clearTimeout(this.leaving);
    clearTimeout(this.restating);
    document.removeEventListener("visibilitychange", this.shown);
    connection.value = null;
  }

  // changed renders what shows the session, once per frame.
  changed() {
    if (this.frame) return;
    const run = () => {
      this.frame = 0;
      this.tick.value++;
    };
    this.frame = document.visibilityState === "visible" ? requestAnimationFrame(run) : setTimeout(run, 50);
  }

  visible() {
    clearTimeout(this.leaving);
    if (document.visibilityState === "hidden") {
      this.leaving = setTimeout(() => {
        this.ending.abort();
        connection.value = null;
      }, away);
    } else if (this.ending.signal.aborted && !this.closed) {
      this.open();
    }
  }

  // open reads the snapshot and follows its events. The events up to the sequence seen, which the stream may repeat, are no
  // reason to read the snapshot again.
  async open(seen = 0) {
    this.ending.abort();
    this.ending = new AbortController();
    const { signal } = this.ending;
    try {
      const snapshot = await (this.whole ? get("sessions/" + of(this.id) + "/snapshot", {}, { signal }) : snapshotOf(this.id, { signal }));
      if (signal.aborted) return;
      const life = snapshot.cursor.slice(0, snapshot.cursor.lastIndexOf(".") + 1) + (snapshot.session.epoch || 0); // messages of one life stay
      const known = this.outline?.life === life && this.outline.to <= (snapshot.offset || 0) ? this.outline : null;
      if (known) await known.extend(snapshot.offset); // what is read must not disappear
      if (signal.aborted) return;
      this.t = transcript.begin(snapshot);
      this.size = this.t.committed;
      this.outline = known || Object.assign(outlineOf(this.id, this.life.signal, () => this.changed()), { life });
      if (!known) this.extend(this.outline, this.t.from);
      this.error = null;
      if (this.course) this.past(snapshot.cursor, signal);
      this.settle();
      this.changed();
      const res = await follow({
        cursor: snapshot.cursor, signal,
        open: (cursor, ends) => raw("GET", "sse" + search({ session_id: this.id, after: cursor }), undefined, { signal: ends }),
        on: (event, cursor) => signal.aborted || this.event(event, cursor, seen),
        state: (word, next, again) => this.state(word, next, again),
      });
      if (!res || signal.aborted) return;
      if (res.status === 410) return this.open(seen); // the log has been trimmed
      if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({})));
    } catch (err) {
      if (signal.aborted) return;
      this.error = err;
      connection.value = null;
      this.changed();
      if (err.status === 0) setTimeout(() => this.closed || this.ending.signal !== signal || this.open(seen), 3000);
    }
  }

  // extend reads the outline up to the part that t has, however often it takes.
  async extend(outline, to) {
    while (!this.closed && outline === this.outline && outline.to < to) {
      await outline.extend(to).catch(() => new Promise((done) => setTimeout(done, 3000)));
      this.changed();
    }
  }

  // part is whether the conversation before t is not known yet.
  get part() { return this.outline.to < this.t.from; }

  // rows are the turns of the conversation.
  rows() { return rowsOf(this.t, this.runs, this.part ? null : this.outline); }

  state(word, next, again) {
    const was = connection.peek();
    connection.value = word === "connected" ? { lost: false } : { lost: true, since: was?.lost ? was.since : now(), next, again };
  }

  event(event, cursor, seen) {
    const t = this.t;
    if (transcript.apply(t, event, cursor)) this.changed();
    if (this.early) this.early.push(event);
    else if (this.timeline && timeline.apply(this.timeline, event)) this.changed();
    if (event.type === "user_message") this.arrived(event.text || "");
    if (t.stale && place(cursor) > seen) return this.open(place(cursor));
    t.stale = false;
    if (!this.whole && t.committed > this.size + grown) return this.open(place(cursor)); // only the end is held
    if (t.unsettled) this.settle();
    else if (events.has(event.type) || pieces.has(event.type) && this.said !== event.step) this.restate();
    this.said = pieces.has(event.type) ? event.step : this.said;
  }

  // restate reads the status again, at most once a second: what a run does has changed.
  restate() {
    this.restating ||= setTimeout(() => {
      this.restating = 0;
      if (this.closed || this.settling) return;
      status(this.id).then((s) => {
        this.status = s;
        this.changed();
      }, () => {});
    }, 1000);
  }

  // past reads the events up to the snapshot, without the pieces of replies.
  async past(cursor, signal) {
    const tl = timeline.begin(this.id), end = place(cursor);
    this.early = [];
    this.timeline = null;
    try {
      const extent = await get("sessions/" + of(this.id) + "/stream", {}, { signal });
      if (extent.last > 0) {
        const reading = new AbortController();
        signal.addEventListener("abort", () => reading.abort());
        const res = await raw("GET", "sse" + search({ session_id: this.id, after: Math.max(0, (extent.first || 1) - 1), type: timeline.types }), undefined, { signal: reading.signal });
        if (res.ok && res.body) {
          this.timeline = tl; // grows while it is read
          for await (const { event } of frames(res.body.pipeThrough(new TextDecoderStream()))) {
            timeline.apply(tl, event);
            if (event.sequence >= end || event.sequence >= extent.last) break;
          }
        }
        reading.abort();
      }
    } catch { /* what was read is shown */ }
    if (signal.aborted) return;
    for (const event of this.early) timeline.apply(tl, event);
    this.timeline = tl;
    this.early = null;
    this.changed();
  }

  // settle reads again what events do not have: the status, the runs, the queue.
  settle() {
    this.t.unsettled = false;
    if (this.settling) {
      this.again = true;
      return this.settling;
    }
    this.settling = this.read().catch((err) => { if (err.status !== 404) this.problem = err; }).then(() => {
      this.settling = null;
      this.changed();
      if (this.again && !this.closed) {
        this.again = false;
        this.settle();
      }
    });
    return this.settling;
  }

  async read() {
    const path = "sessions/" + of(this.id);
    const [s, runs, branches] = await Promise.all([status(this.id), get(path + "/runs", { newest: true, limit: 100 }),
      get("chat/" + of(this.id) + "/branches", { limit: 100 }).catch(() => ({ items: [] }))]);
    this.status = s;
    this.runs = runs.items.reverse();
    this.branches = branches.items;
    this.queue = s.session.queued ? (await get(path + "/queue")).items : [];
    const waiting = new Set(this.queue.flatMap((q) => q.messages.flatMap((m) => m.parts.map((p) => p.text))));
    this.pending = this.pending.filter((p) => p.state === "sending" || this.t.running && !waiting.has(p.text));
  }

  // arrived removes the pending message that has become part of the transcript.
  arrived(text) {
    const i = this.pending.findIndex((p) => p.text === text || text && p.text.startsWith(text));
    if (i >= 0) this.pending.splice(i, 1);
  }

  get running() { return !!this.t?.running; }

  get calls() { return this.status?.calls || []; }

  // send says something. how is on_busy: "steer" joins the turn under way, "enqueue" begins one after it.
  async send(text, files, { how = "enqueue", model } = {}) {
    const entry = { key: newID(), text, files, state: "sending" };
    this.pending.push(entry);
    this.changed();
    try {
      await ask("POST", "start", { session_id: this.id, input: { text, files }, on_busy: how, on_waiting: "enqueue", model: model || undefined }, { key: entry.key });
      entry.state = "sent";
      this.settle();
    } catch (err) {
      this.pending = this.pending.filter((p) => p !== entry);
      throw err;
    } finally {
      this.changed();
    }
  }

  // replace begins a turn in place of the one of an earlier message: with another text, or to answer it again. The response
  // is a stream, which the page has already: it is left.
  async replace(message, parts) {
    const leave = new AbortController();
    const body = { id: this.id, messageId: message, trigger: parts ? "submit-message" : "regenerate-message", messages: [{ id: message, role: "user", parts: parts || [{ type: "text", text: "" }] }] };
    const res = await raw("POST", "chat", body, { signal: leave.signal });
    if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({})));
    leave.abort();
  }

  stop(reason = "Stopped on the console.") {
    return ask("POST", "interrupt", { session_id: this.id, reason }).then(() => this.settle());
  }
}
