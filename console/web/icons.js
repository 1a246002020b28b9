// Icons: strokes on a grid of 16.

import { html } from "./html.js";

const paths = {
  wait: "M5 2.5h6M5 13.5h6M5.5 2.5c0 3.2 5 3.6 5 5.5s-5 2.3-5 5.5M10.5 2.5c0 3.2-5 3.6-5 5.5s5 2.3 5 5.5",
  fail: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6 6l4 4M10 6l-4 4",
  run: "M8 2a6 6 0 1 1-6 6M8 5.5V8l2 1.5",
  done: "M3.5 8.5l3 3 6-7",
  stop: "M4.5 4.5h7v7h-7z",
  idle: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11z",
  inbox: "M2.5 9l2-5.5h7l2 5.5v3.5h-11zM2.5 9H6c0 1.2.8 2 2 2s2-.8 2-2h3.5",
  sess: "M2.5 3h11v8h-6l-3 2.5V11h-2z",
  usage: "M3 13V8.5M8 13V3M13 13V6",
  ops: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  memory: "M4 2.5h8v11l-4-2.8-4 2.8z",
  find: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
  tool: "M5.5 4.5L2.5 8l3 3.5M10.5 4.5l3 3.5-3 3.5",
  model: "M8 2.5L13.5 8 8 13.5 2.5 8z",
  fork: "M4.5 3v10M4.5 9c4.5 0 7-1.5 7-6",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  right: "M6 4l4 4-4 4",
  left: "M10 4L6 8l4 4",
  down: "M4 6l4 4 4-4",
  x: "M4 4l8 8M12 4l-8 8",
  user: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c.6-2.6 2.6-3.5 5-3.5s4.4.9 5 3.5",
  swap: "M3 6h9.5L10 3.5M13 10H3.5L6 12.5",
  void: "M3.5 5h9M6 5V3h4v2M5 5l.6 8h4.8L11 5",
  up: "M8 13V3M4 7l4-4 4 4",
  clip: "M12.5 7.5L8 12a2.6 2.6 0 0 1-3.7-3.7L9 3.5a1.8 1.8 0 0 1 2.5 2.5L7 10.5",
  child: "M4 3v6h8M9.5 6.5L12 9l-2.5 2.5",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  retry: "M12.5 5.5A5 5 0 1 0 13 9M13 2.5v3.5H9.5",
  off: "M2 6a9 9 0 0 1 12 0M4.5 8.5a5.5 5.5 0 0 1 7 0M8 12h.01M3 2l10 12",
  menu: "M3 4.5h10M3 8h10M3 11.5h10",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
};

// Icon is an icon. It is decoration: the words beside it have the meaning.
export function Icon({ name, class: className }) {
  return html`<svg class=${"i " + (className || "")} viewBox="0 0 16 16" aria-hidden="true"><path d=${paths[name]} /></svg>`;
}

// Logo is a pile of stones.
export function Logo() {
  return html`<svg class="logo" viewBox="0 0 20 20" aria-hidden="true"><ellipse cx="10" cy="16" rx="7.5" ry="2.6" /><ellipse cx="10" cy="10.6" rx="5" ry="2" />
    <ellipse cx="10" cy="6.4" rx="3.2" ry="1.5" /><ellipse cx="10" cy="3" rx="1.7" ry="1.1" /></svg>`;
}

// Hatch is the pattern of waits in charts.
export function Hatch() {
  return html`<svg class="vh" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
    <rect class="hb" width="5" height="5" /><rect class="hs" width="2" height="5" /></pattern></defs></svg>`;
}
