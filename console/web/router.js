// Addresses: every view is a path below the console's root with a query, so that it can be linked and Back works.

import { signal } from "./html.js";

// root is the path of the console, with a slash at its end. This module lies in static/ below it.
export const root = new URL("../", import.meta.url).pathname;

function read() {
  const path = location.pathname.startsWith(root) ? location.pathname.slice(root.length) : "";
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(location.search) };
}

export const route = signal(read());

let back = false;

// returned is whether the reader has come to the current view by Back or Forward.
export const returned = () => back;

addEventListener("popstate", () => {
  back = true;
  route.value = read();
});

// href returns the address of a view: its path, given in parts, and the values of its query that are not empty.
export function href(parts, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, value);
  }
  const text = search.toString();
  return root + [].concat(parts).map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

// go shows another view.
export function go(address, { replace = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  back &&= replace;
  route.value = read();
}

// query changes values of the current view's query.
export function query(values, options) {
  const all = Object.fromEntries(route.peek().query);
  go(href(route.peek().path, { ...all, ...values }), options);
}

// Links within the console change the view without loading the page again.
document.addEventListener("click", (ev) => {
  const link = ev.target.closest?.("a[href]");
  if (!link || ev.defaultPrevented || ev.button || ev.metaKey || ev.ctrlKey || ev.shiftKey || ev.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin || !link.pathname.startsWith(root)) return;
  if (link.hash && link.pathname === location.pathname) return; // the skip link
  ev.preventDefault();
  go(link.pathname + link.search);
});
