// A long list of which only the rows near the screen are in the page. Their heights are measured, and those of others are
// estimated: the space that they would take is left free.

import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./html.js";

// drawn is how many screens above and below the visible one have rows, and least how many must have them.
const drawn = 2, least = 1;

// native is whether the browser keeps what is read where it is, also in the middle of a movement.
const native = CSS.supports("overflow-anchor", "auto");

// Rows knows which rows of a scrolling box are in the page. Rows are named by keys, which do not change.
class Rows {
  keys = [];
  index = new Map();
  heights = new Map(); // of the rows that have been measured, by key
  guess = 120; // the height of others
  from = 0; // the rows in the page
  to = 0;
  mark = null; // the row at the top of the box: { key, rel }, where rel is how far below the top it begins; null for the end
  sent = false; // whether the mark is where the reader is to be, rather than where the reader is
  held = new Set(); // rows that stay in the page wherever the reader is

  set(keys) {
    if (keys.length === this.keys.length && keys.every((k, i) => k === this.keys[i])) return;
    const was = this.mark ? this.index.get(this.mark.key) : -1;
    this.keys = keys;
    this.index = new Map(keys.map((k, i) => [k, i]));
    if (was >= 0 && !this.index.has(this.mark.key) && keys.length) this.mark.key = keys[Math.min(was, keys.length - 1)];
  }

  height(i) { return this.heights.get(this.keys[i]) ?? this.guess; }

  // sum is the height of the rows from a to b.
  sum(a, b) {
    let sum = 0;
    for (let i = a; i < b; i++) sum += this.height(i);
    return sum;
  }

  // reach returns the first row and the row after the last one within a number of screens around the mark.
  reach(screens, height) {
    const n = this.keys.length, at = this.mark && this.index.get(this.mark.key);
    let from, to, room = (screens + 1) * height;
    if (at === null || at === undefined) from = to = n;
    else {
      from = to = at;
      for (let left = room - (this.mark.rel || 0); to < n && left > 0; to++) left -= this.height(to);
      room = screens * height + (this.mark.rel || 0);
    }
    for (; from > 0 && room > 0; from--) room -= this.height(from - 1);
    return [from, to];
  }

  // parts are the rows in the page, and the spaces between them: { i } or { space, before }.
  parts(height) {
    const known = [...this.heights.values()];
    if (known.length) this.guess = known.reduce((a, b) => a + b, 0) / known.length;
    [this.from, this.to] = this.reach(drawn, height);
    const shown = new Set([...this.held].map((k) => this.index.get(k)).filter((i) => i !== undefined));
    for (let i = this.from; i < this.to; i++) shown.add(i);
    const list = [];
    let last = 0;
    for (const i of [...shown].sort((a, b) => a - b)) {
      if (i > last) list.push({ space: this.sum(last, i), before: this.keys[i] });
      list.push({ i });
      last = i + 1;
    }
    if (last < this.keys.length) list.push({ space: this.sum(last, this.keys.length), before: "" });
    return list;
  }

  // look takes where the box stands. It returns whether rows are missing.
  look(box, list, following) {
    if (this.sent && !following && this.index.has(this.mark?.key) && !this.element(list)) return false; // its row is still being read
    const row = (el) => el?.closest?.("[data-row]")?.dataset.row;
    this.held = new Set([document.activeElement, ...list.querySelectorAll(".editing")].filter((el) => list.contains(el)).map(row).filter(Boolean));
    this.mark = null;
    this.sent = false;
    if (!following) {
      let rest = box.getBoundingClientRect().top - list.getBoundingClientRect().top, i = 0;
      for (; i < this.keys.length - 1 && rest >= this.height(i); i++) rest -= this.height(i);
      if (this.keys.length) this.mark = { key: this.keys[i], rel: -rest };
    }
    return this.lacks(box);
  }

  // element is the element of the row at the mark.
  element(list) { return list.querySelector('[data-row="' + CSS.escape(this.mark.key) + '"]'); }

  lacks(box) {
    const [from, to] = this.reach(least, box.clientHeight);
    return from < this.from || to > this.to;
  }

  // measure reads the heights of the rows in the page, and keeps the row at the mark where it was.
  measure(box, list, following) {
    for (const el of list.children) if (el.dataset.row) this.heights.set(el.dataset.row, el.getBoundingClientRect().height);
    if (following) box.scrollTop = box.scrollHeight;
    else if (this.mark && (this.sent || !native)) {
      const el = this.element(list);
      const now = el ? el.getBoundingClientRect().top - box.getBoundingClientRect().top : 0, off = el ? now - (this.mark.rel ??= now) : 0;
      if (Math.abs(off) > 0.5) box.scrollTop += off;
    }
    return this.lacks(box);
  }
}

// useRows draws the rows with the keys in list, an element within the box that scrolls. following is a reference to whether
// the reader follows the end. It returns { parts, to, look, near, height }: what to draw, a function that
// goes to a row, one to be called when the reader has moved, whether the last row is within a screen, and the height of a row. A
// row that is drawn without the attribute data-row is still being read. What is known is kept in place, an object, for a reader
// who comes back.
export function useRows(box, list, keys, following, place) {
  const rows = useRef(null), [, redraw] = useReducer((n) => n + 1, 0);
  if (!rows.current) {
    rows.current = place?.rows || new Rows();
    if (place) place.rows = rows.current;
    rows.current.sent = !!rows.current.mark;
  }
  const r = rows.current;
  r.set(keys);
  if (!following.current && !r.mark && keys.length) r.mark = { key: keys[0] };
  const parts = r.parts(box.current?.clientHeight || innerHeight);
  const look = () => list.current && r.look(box.current, list.current, following.current) && redraw();
  useLayoutEffect(() => { if (r.measure(box.current, list.current, following.current)) redraw(); });
  useEffect(() => {
    const el = box.current, within = list.current;
    const grown = new ResizeObserver(() => { if (within.isConnected && r.measure(el, within, following.current)) redraw(); }); // rows may grow by themselves, as pictures do
    grown.observe(el);
    grown.observe(within);
    el.addEventListener("scroll", look, { passive: true });
    el.addEventListener("focusin", look);
    return () => {
      grown.disconnect();
      el.removeEventListener("scroll", look);
      el.removeEventListener("focusin", look);
    };
  }, []);
  const to = (key) => {
    following.current = false;
    Object.assign(r, { mark: { key, rel: 0 }, sent: true });
    redraw();
  };
  const near = () => r.reach(least, box.current?.clientHeight || innerHeight)[1] >= keys.length;
  return { parts, to, look, near, height: (i) => r.height(i) };
}

const kept = new WeakMap();

// useKept is useState for what a row keeps while it is not in the page. of is the object that the row shows.
export function useKept(of, initial) {
  const [value, set] = useState(kept.has(of) ? kept.get(of) : initial);
  return [value, (next) => {
    kept.set(of, next);
    set(next);
  }];
}

// Space is the room of rows that are not in the page.
export const Space = ({ height }) => html`<svg class="space" width="1" height=${height} aria-hidden="true"></svg>`;
