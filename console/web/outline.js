// A long conversation before its end: where each turn begins, and the messages of the turns that are near the reader. It knows
// no page, so that a test runs it without one.

import { itemsOf, turns } from "./transcript.js";

// together is how many messages are read in one go, and most how many are held of which none is shown.
const together = 60, most = 300;

// calm is how long a part that did not load is left alone, in milliseconds.
const calm = 2000;

export class Outline {
  rows = []; // the turns, and the parts of long ones: { name, key, number, continues, index, id, items, block }
  to = 0; // the index behind the last message
  held = 0; // how many messages are in the rows
  #names = new Map(); // how many rows have a key
  #blocks = []; // rows that are read and let go together: { rows, count, used, reading }
  #round = 0;
  #last = Promise.resolve();

  // read(path, parameters) reads below the session, changed is called when rows have got their items.
  constructor(session, read, changed = () => {}) {
    Object.assign(this, { session, read, changed });
  }

  // extend adds the turns up to the message with an index, one call after the other.
  extend(to) {
    return this.#last = this.#last.catch(() => {}).then(() => this.#grow(to));
  }

  async #grow(to) {
    while (this.to < to) {
      const page = await this.read("turns", { from: this.to, to });
      for (const part of page.items) this.#add(part);
      this.to = page.has_more ? page.next : to;
    }
  }

  #add({ index, message_id, run_id = "", continues }) {
    const last = this.rows.at(-1), joins = !!continues && !!last;
    const row = { key: run_id, name: this.name(run_id), number: (last?.number || 0) + (joins ? 0 : 1), continues: joins, index, id: message_id, items: null };
    this.#names.set(run_id, this.named(run_id) + 1);
    let block = this.#blocks.at(-1);
    if (!block || block.count || block.reading || index - block.rows[0].index >= together) this.#blocks.push(block = { rows: [], count: 0, used: 0, reading: null });
    block.rows.push(row);
    this.rows.push(Object.assign(row, { block, at: this.rows.length }));
  }

  named(key) { return this.#names.get(key) || 0; }

  // name is the name of the next row with a key: one of its own.
  name(key, more = 0) {
    const n = this.named(key) + more;
    return "turn " + key + (n ? " " + (n + 1) : "");
  }

  // show notes which rows are drawn, and reads what they lack.
  show(rows) {
    this.#round++;
    for (const row of rows) {
      row.block.used = this.#round;
      if (!row.items && !row.block.failed) this.load(row).catch(() => {});
    }
    this.#letGo();
  }

  // load reads the messages of a row.
  load(row) {
    const { block } = row;
    if (row.items) return Promise.resolve();
    block.used = this.#round;
    return (block.reading ||= this.#fill(block).catch((err) => {
      block.failed = true;
      setTimeout(() => { block.failed = false; this.changed(); }, calm);
      throw err;
    }).finally(() => { block.reading = null; }));
  }

  async #fill(block) {
    const end = this.rows[block.rows.at(-1).at + 1]?.index ?? this.to, parts = block.rows.map(() => []);
    let i = 0;
    for (let from = block.rows[0].index; from < end; from += 100) {
      const page = await this.read("messages", { from, limit: Math.min(100, end - from) });
      for (const message of page.items) {
        if (message.id === block.rows[i + 1]?.id) i++;
        parts[i].push(message);
        block.count++;
      }
    }
    block.rows.forEach((row, k) => { row.items = itemsOf(this.session, parts[k]); });
    this.held += block.count;
    this.#letGo();
    this.changed();
  }

  // letGo lets go of what was shown longest ago.
  #letGo() {
    if (this.held <= most) return;
    for (const block of this.#blocks.filter((b) => b.count && !b.reading && b.used < this.#round).sort((a, b) => a.used - b.used)) {
      if (this.held <= most) return;
      for (const row of block.rows) row.items = null;
      this.held -= block.count;
      block.count = 0;
    }
  }

  // at returns the row that has the message with an index.
  at(index) {
    let low = 0, high = this.rows.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].index <= index) low = middle;
      else high = middle;
    }
    return this.rows[low];
  }

  // find returns the row of a message; undefined if it is not before the end.
  async find(message_id) {
    for await (const [row] of this.#places({ message_id })) return row;
  }

  // search yields the rows that have a text, and how many places.
  search(text) { return this.#places({ search: text }); }

  async* #places(what) {
    for (let from = 0; from < this.to;) {
      const page = await this.read("turns", { from, to: this.to, ...what });
      for (const part of page.items) if (part.places) yield [this.at(part.index), part.places];
      from = page.has_more ? page.next : this.to;
    }
  }
}

// rowsOf are the turns of a conversation: those of an outline, if there is one, and those of the transcript's end.
export function rowsOf(t, runs, outline) {
  const before = outline?.rows || [], seen = new Map(), own = turns(t, runs);
  let number = before.at(-1)?.number || 0;
  own.forEach((turn, i) => {
    turn.continues = i === 0 && before.length > 0 && turn.key === before.at(-1).key;
    if (!turn.continues) number++;
    const n = seen.get(turn.key) || 0, name = (outline || none).name(turn.key, n);
    seen.set(turn.key, n + 1);
    Object.assign(turn, { number, name });
  });
  return [...before, ...own];
}

const none = new Outline("", null);
