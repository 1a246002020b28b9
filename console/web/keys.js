// Keys of the console. None works while the user types, and all can be switched off.

import { signal, useEffect } from "./html.js";

export const enabled = signal(true);
try { enabled.value = localStorage.getItem("cairn-keys") !== "off"; } catch { /* a page may not be allowed to keep anything */ }

export function setEnabled(on) {
  enabled.value = on;
  try { localStorage.setItem("cairn-keys", on ? "on" : "off"); } catch { /* for this page only, then */ }
}

const stack = []; // maps of keys to functions; the last one that knows a key decides
let prefix = 0; // when G was pressed

const typing = (el) => el && (/^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName) && el.type !== "checkbox" && el.type !== "radio" || el.isContentEditable);

// useKeys calls functions for keys while the component is shown. After G the key has the name "g KEY".
export function useKeys(map) {
  useEffect(() => {
    stack.push(map);
    return () => stack.splice(stack.indexOf(map), 1);
  });
}

document.addEventListener("keydown", (ev) => {
  const control = (ev.ctrlKey || ev.metaKey) && !ev.altKey && !ev.shiftKey && ev.key.toLowerCase();
  const palette = control === "k", find = control === "f" && enabled.value && !ev.target.closest("[role=search]"); // typing does not matter
  if (!palette && (!find && (ev.ctrlKey || ev.metaKey || ev.altKey || typing(ev.target)) || ev.defaultPrevented || !enabled.value || document.querySelector("dialog[open]"))) return;
  let key = palette || find ? "ctrl " + control : ev.key.length === 1 ? ev.key.toLowerCase() : ev.key;
  if (Date.now() - prefix < 1200 && !palette && !find) key = "g " + key;
  prefix = key === "g" ? Date.now() : 0;
  const map = stack.findLast((m) => m[key]);
  if (!map) return;
  ev.preventDefault();
  map[key](ev);
});
