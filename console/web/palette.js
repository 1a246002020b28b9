// The command palette, and the help of the keys.

import { html, useEffect, useRef, useState, useSignal } from "./html.js";
import { get, may, mayRun, me } from "./api.js";
import { go, href } from "./router.js";
import { Icon } from "./icons.js";
import { Dialog } from "./parts.js";
import { enabled, setEnabled } from "./keys.js";
import { title } from "./format.js";

export const pages = () => [["inbox", "Inbox", "inbox"], ["sessions", "Sessions", "sess"], ...(may("operator", "user") ? [["effects", "Effects", "swap"]] : []), ...(me.value.memory === false && may("user", "operator") ? [] : [["memory", "Memory", "memory"]]), ...(may("operator", "user") ? [["usage", "Usage", "usage"]] : []), ...(may("operator") ? [["ops", "Operations", "ops"]] : [])];

export function Palette({ close }) {
  const [text, set] = useState("");
  const [found, find] = useState([]);
  const [at, move] = useState(0);
  const ref = useRef();
  useEffect(() => {
    const ending = new AbortController();
    const timer = setTimeout(() => get("sessions", { search: text, limit: 6 }, { signal: ending.signal }).then((p) => find(p.items), () => {}), text ? 200 : 0);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [text]);
  const list = [
    ...pages().filter(([, name]) => name.toLowerCase().includes(text.toLowerCase())).map(([path, name, icon]) => ({ name, icon, to: href(path) })),
    ...("new session".includes(text.toLowerCase()) && mayRun() ? [{ name: "New session", icon: "edit", to: href("new") }] : []),
    ...found.map((s) => ({ name: title(s), icon: "sess", to: href(["s", s.id]) })),
    ...(text ? [{ name: "Search all sessions for “" + text + "”", icon: "find", to: href("sessions", { q: text }) }] : []),
  ];
  const run = (x) => {
    close();
    go(x.to);
  };
  const keys = (ev) => {
    if (ev.key === "ArrowDown") move((at + 1) % list.length);
    else if (ev.key === "ArrowUp") move((at + list.length - 1) % list.length);
    else if (ev.key === "Enter" && list[at]) run(list[at]);
    else return;
    ev.preventDefault();
  };
  return html`<${Dialog} title="Search" close=${close}><div class="palette" onKeyDown=${keys}><input class="field" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${"palette-" + at} aria-label="Search pages and sessions" placeholder="Pages, titles, words" value=${text} onInput=${(ev) => { set(ev.target.value); move(0); }} />
    <ul id="palette-list" role="listbox" aria-label="Results" ref=${ref}>${list.map((x, i) => html`<li id=${"palette-" + i} role="option" aria-selected=${String(i === at)} class=${i === at ? "on" : ""} onClick=${() => run(x)} onMouseMove=${() => i !== at && move(i)}><${Icon} name=${x.icon} /><span class="clip grow" dir="auto">${x.name}</span></li>`)}</ul></div><//>`;
}

const help = [["Ctrl K", "Search"], ["G then I, S, E, M, U, O", "Inbox, sessions, effects, memory, usage, operations"], ["J, K", "Next, previous"], ["Enter", "Open"], ["/", "Search the list"], ["F", "Filter"], ["C", "New session"], ["Ctrl F", "Search the conversation"],
  ["R", "Review the open call"], ["A", "To Approve; Enter decides"], ["D", "Deny"], ["T", "Retry a failed turn"], ["B", "Fork"], ["E", "Rename"], ["Esc", "Stop"], ["?", "These keys"]];

export function Help({ close }) {
  const on = useSignal(enabled);
  return html`<${Dialog} title="Keys" close=${close}><table class="kv"><tbody>${help.map(([k, v]) => html`<tr><th scope="row"><kbd>${k}</kbd></th><td>${v}</td></tr>`)}</tbody></table>
    <p><label class="row"><input type="checkbox" checked=${on} onChange=${(ev) => setEnabled(ev.target.checked)} /> Keys work when nothing is typed into</label></p><div class="row end"><button type="button" class="btn" onClick=${close}>Close</button></div><//>`;
}
