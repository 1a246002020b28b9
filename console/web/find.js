// The search of a conversation: the browser's own finds only what is near the screen.

import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { write } from "./exact.js";
import { Icon } from "./icons.js";
import { toast } from "./parts.js";

// most is how many places are counted.
const most = 1000;

const textOf = (item) => [item.text, item.tool, item.name, item.input !== undefined && write(item.input), item.output !== undefined && write(item.output)].filter(Boolean).join("\n").toLowerCase();

// placesOf are the places of a text in a row, as { row, nth }: nth is how many places the row has before.
const placesOf = (row, n) => Array.from({ length: n }, (_, nth) => ({ row, nth }));

// inPage are the places in rows of the end, which are held.
const inPage = (rows, text) => rows.filter((r) => !r.block).flatMap((r) => placesOf(r, r.items.filter((item) => textOf(item).includes(text)).length));

// rangesOf are the ranges of a text in an element, and mark shows them.
function rangesOf(el, text) {
  const list = [], walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const data = node.data.toLowerCase();
    for (let at = data.indexOf(text); at >= 0; at = data.indexOf(text, at + text.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + text.length, node.data.length));
      list.push(range);
    }
  }
  return list;
}

function mark(ranges) {
  if (globalThis.Highlight) CSS.highlights.set("found", new Highlight(...ranges));
}

// useEarlier searches what is before the end, a part at a time. It returns { places, done }.
function useEarlier(outline, want) {
  const [found, set] = useState({ places: [], done: true });
  useEffect(() => {
    if (!want || !outline?.rows.length) return set({ places: [], done: true });
    let ended = false;
    set({ places: [], done: false });
    const timer = setTimeout(async () => {
      const places = [];
      try {
        for await (const [row, n] of outline.search(want)) {
          if (ended || places.length >= most) break;
          places.push(...placesOf(row, n));
          set({ places: [...places], done: false });
        }
      } catch (err) {
        if (!ended) toast(err.message, { error: true });
      }
      if (!ended) set({ places, done: true });
    }, 150);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [outline, want]);
  return found;
}

// Find is the search. earlier is the outline of what is before the end, to goes to a row, and at returns the element of a row
// once it is in the page.
export function Find({ turns, count, earlier, to, at, close }) {
  const [text, set] = useState("");
  const [i, go] = useState(-1);
  const input = useRef();
  const want = text.trim().toLowerCase();
  const before = useEarlier(earlier, want);
  const behind = useMemo(() => (want ? inPage(turns, want) : []), [want, count]);
  const places = [...before.places, ...behind].slice(0, most);
  useEffect(() => {
    input.current.focus();
    return () => mark([]);
  }, []);
  const show = async (next) => {
    if (!places.length) return;
    const k = (next + places.length) % places.length, place = places[k];
    go(k);
    to(place.row);
    const el = await at(place.row).catch(() => null);
    if (!el) return;
    const ranges = rangesOf(el, want);
    mark(ranges);
    (ranges[Math.min(place.nth, ranges.length - 1)]?.startContainer.parentElement || el).scrollIntoView({ block: "center" });
  };
  useEffect(() => {
    mark([]);
    go(-1);
  }, [want]);
  const ready = i < 0 && (before.places.length > 0 || before.done && places.length > 0); // the first place is known
  useEffect(() => {
    const timer = ready && setTimeout(() => show(0), 150);
    return () => clearTimeout(timer);
  }, [want, ready]);
  const keys = (ev) => {
    if (ev.key === "Enter") show(i + (ev.shiftKey ? -1 : 1));
    else if (ev.key === "Escape") close();
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  };
  return html`<form class="bar findbar" role="search" aria-label="Search the conversation" onSubmit=${(ev) => ev.preventDefault()} onKeyDown=${keys}>
    <label class="find grow"><${Icon} name="find" /><input ref=${input} type="search" aria-label="Search the conversation" value=${text} onInput=${(ev) => set(ev.target.value)} /></label>
    <span class="t3 nw" role="status">${want && (places.length ? (i < 0 ? "" : i + 1 + " of ") + places.length + (places.length >= most || !before.done ? "+" : "") : before.done ? "Not found" : "Searches…")}</span>
    <button type="button" class="btn quiet icon" aria-label="Previous place" disabled=${!places.length} onClick=${() => show(i - 1)}><${Icon} name="up" /></button>
    <button type="button" class="btn quiet icon" aria-label="Next place" disabled=${!places.length} onClick=${() => show(i + 1)}><${Icon} name="down" /></button>
    <button type="button" class="btn quiet icon" aria-label="Close the search" onClick=${close}><${Icon} name="x" /></button></form>`;
}
