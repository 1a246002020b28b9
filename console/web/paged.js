// Lists that grow while they are scrolled, and of which only the rows near the screen are in the page.

import { effect, html, useEffect, useEvery, useReducer, useRef } from "./html.js";
import { signedOut } from "./api.js";
import { returned } from "./router.js";
import { Icon } from "./icons.js";
import { Space, useRows } from "./rows.js";

const left = new Map(); // lists as they were left, by name, for a reader who comes back
effect(() => { if (signedOut.value) left.clear(); });

// List is a list as far as it was read.
class List {
  items = [];
  pages = []; // { cursor, ids } of each page
  next = ""; // the cursor of the next page; empty after the last one
  first = null; // the answer that has the first page; null before it is there
  head = 0; // how many items the first page has
  round = 0; // how often the list was read from its beginning
  fresh = 0; // how many new items are at the beginning, which are not shown yet
  error = null;
  place = {}; // where the reader is, see useRows
  scroll = 0;

  constructor(key, idOf) { Object.assign(this, { key, idOf }); }

  begin(page) {
    Object.assign(this, { items: [], pages: [], first: page, fresh: 0, error: null, round: this.round + 1 });
    this.add("", page);
    this.head = this.items.length;
  }

  add(cursor, page) {
    this.update(page.items);
    const known = new Set(this.items.map(this.idOf)), items = page.items.filter((item) => !known.has(this.idOf(item)));
    this.items = [...this.items, ...items];
    this.pages.push({ cursor, ids: new Set(items.map(this.idOf)) });
    this.next = page.next || "";
  }

  // update replaces items by newer ones, where they are. It returns how many others there are.
  update(items) {
    const newer = new Map(items.map((item) => [this.idOf(item), item]));
    this.items = this.items.map((item) => {
      const now = newer.get(this.idOf(item));
      newer.delete(this.idOf(item));
      return now || item;
    });
    return newer.size;
  }

  // near are the pages with the rows that the reader sees.
  near() {
    const i = this.pages.findIndex((p) => p.ids.has(this.place.rows?.mark?.key));
    return i < 0 ? [] : this.pages.slice(i, i + 2);
  }
}

// usePaged reads a list. name names it, key is what selects its items, read(cursor, signal) returns { items, next }, idOf names
// an item, and box is a reference to the element that scrolls. A live list is read again every 10 seconds: from its beginning while
// the reader is there, or if it has a single page; otherwise what is read stays where it is, and new items are counted. It
// returns { list, again, more, top }.
export function usePaged({ name, key, read, idOf, box, live = true }) {
  const [, redraw] = useReducer((n) => n + 1, 0);
  const state = useRef({ list: null, wanted: null, ending: null, growing: false }), s = state.current;
  if (!s.list) s.list = returned() && left.get(name)?.key === key ? left.get(name) : new List(key, idOf);
  s.read = read;
  const begin = async () => {
    s.ending?.abort();
    const { signal } = s.ending = new AbortController();
    s.wanted = key;
    s.growing = false;
    try {
      const page = await s.read("", signal);
      if (signal.aborted) return;
      if (s.list.key !== key) {
        s.list = new List(key, idOf);
        if (box.current) box.current.scrollTop = 0;
      }
      s.list.begin(page);
    } catch (err) {
      if (signal.aborted) return;
      s.list.error = err;
    }
    redraw();
  };
  const more = async () => {
    const { list } = s, cursor = list.next;
    if (!cursor || s.growing || list.key !== key) return;
    s.growing = true;
    const { signal } = s.ending ||= new AbortController();
    try {
      const page = await s.read(cursor, signal);
      if (signal.aborted) return;
      list.add(cursor, page);
      list.failed = null;
    } catch (err) {
      if (signal.aborted) return;
      list.failed = err;
    }
    s.growing = false;
    redraw();
  };
  const poll = async () => {
    const { list } = s, single = list.pages.length < 2 && !list.next;
    if (s.growing) return;
    if (!list.first || single || !box.current || box.current.scrollTop < 20) return begin();
    const { signal } = s.ending ||= new AbortController(), near = list.near().filter((p) => p.cursor);
    try {
      const [page, ...others] = await Promise.all([s.read("", signal), ...near.map((p) => s.read(p.cursor, signal))]);
      if (signal.aborted || list !== s.list) return;
      list.fresh = list.update(page.items);
      for (const other of others) list.update(other.items);
      list.error = null;
    } catch (err) {
      if (signal.aborted) return;
      list.error = err;
    }
    redraw();
  };
  useEffect(() => {
    if (s.list.first && s.list.key === key && s.wanted === null) poll(); // it was left here
    else begin();
  }, [key]);
  useEvery(10_000, () => live && last.current(), [key]);
  const last = useRef();
  last.current = poll;
  useEffect(() => () => {
    s.ending?.abort();
    if (!signedOut.peek()) left.set(name, s.list);
  }, []);
  const top = () => {
    box.current.scrollTop = 0;
    begin();
  };
  return { list: s.list, again: begin, more, top, growing: s.growing };
}

// filled reads pages until one has items: a page may be empty although others follow.
export async function filled(read, cursor) {
  for (;;) {
    const page = await read(cursor);
    if (page.items.length || !page.next) return page;
    cursor = page.next;
  }
}

// Paged draws rows, which have keys, within the box. draw(row, n) draws one: an element with the attribute data-row.
export function Paged({ paged, rows, draw, box, ...attributes }) {
  const within = useRef(), following = useRef(false);
  const r = useRows(box, within, rows.map((row) => row.key), following, paged.list.place);
  useEffect(() => { if (r.near() && !paged.list.failed) paged.more(); });
  return html`<div ref=${within} ...${attributes}>${r.parts.map((p) => (p.space ? html`<${Space} key=${"before " + p.before} height=${p.space} />` : draw(rows[p.i], p.i)))}</div>`;
}

// More is the button behind a list that continues.
export const More = ({ paged }) => (paged.list.next ? html`<div class="pager"><button type="button" class="btn" disabled=${paged.growing} onClick=${paged.more}>Load more</button>
  ${paged.list.failed && html`<span class="t2" role="status">${paged.list.failed.message}</span>`}</div>` : null);

// Fresh leads to new rows at the beginning.
export const Fresh = ({ paged, word }) => (paged.list.fresh ? html`<div class="freshrow"><button type="button" class="pill" onClick=${paged.top}>${paged.list.fresh} ${word} <${Icon} name="up" /></button></div>` : null);
