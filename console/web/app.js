// The console: it knows who is signed in, shows the view of the address, and says when it is not connected.

import { html, pollNow, render, useEffect, useState, useSignal } from "./html.js";
import { follow, get, me, may, now, signedOut, signOut, unreached } from "./api.js";
import { go, href, route } from "./router.js";
import { Hatch, Icon, Logo } from "./icons.js";
import { Failure, Toasts, said } from "./parts.js";
import { connection } from "./live.js";
import { Help, Palette, pages } from "./palette.js";
import { SignIn } from "./signin.js";
import { Inbox } from "./inbox.js";
import { Sessions } from "./sessions.js";
import { Session } from "./session.js";
import { Compare } from "./compare.js";
import { Chat, New } from "./chat.js";
import { Effects } from "./effects.js";
import { Memory } from "./memory.js";
import { Usage } from "./usage.js";
import { Ops } from "./ops.js";
import { useKeys } from "./keys.js";
import { at, safe } from "./format.js";

function App() {
  const out = useSignal(signedOut), who = useSignal(me), { path } = useSignal(route);
  const [error, fail] = useState(null);
  const start = () => follow().then(() => fail(null), (err) => fail(err));
  useEffect(() => { start(); }, []);
  useEffect(() => { if (who.known && !path.length) go(href(home(who)), { replace: true }); }, [who, path.length]);
  const screen = out ? html`<${SignIn} done=${() => fail(null)} />` : !who.known ? error && html`<main class="signin" id="main"><${Failure} what="The console did not load." error=${error} again=${start} /></main>` : path[0] === "chat" ? html`<${Chat} id=${path[1]} />` : html`<${Shell} path=${path} who=${who} />`;
  return html`<a class="skip" href="#main">Skip to content</a><${Hatch} />${screen}<${Toasts} /><${Announcer} />`;
}

const home = ({ roles }) => (!roles?.length ? "sessions" : roles.every((r) => r === "user") ? "chat" : may("operator") ? "sessions" : "inbox");

const Announcer = () => html`<div class="vh" role="status" aria-live="polite">${useSignal(said)}</div>`;

function view([name, id, part, branch]) {
  switch (name) {
    case "inbox": return html`<${Inbox} />`;
    case "sessions": return html`<${Sessions} />`;
    case "s": return part === "compare" && branch ? html`<${Compare} key=${id + " " + branch} id=${id} branch=${branch} />` : id && !part && html`<${Session} key=${id} id=${id} />`;
    case "new": return html`<${New} />`;
    case "effects": return html`<${Effects} />`;
    case "memory": return html`<${Memory} />`;
    case "usage": return html`<${Usage} />`;
    case "ops": return html`<${Ops} />`;
  }
  return null;
}

function Shell({ path, who }) {
  const [open, show] = useState("");
  useKeys({ "ctrl k": () => show("palette"), "?": () => show("help"), "g i": () => go(href("inbox")), "g s": () => go(href("sessions")), "g e": () => go(href("effects")), "g m": () => go(href("memory")), "g u": () => go(href("usage")), "g o": () => go(href("ops")) });
  const shown = view(path);
  const here = path[0] === "s" || path[0] === "new" ? "sessions" : path[0];
  return html`<div class=${"app" + (path[0] === "s" || path[0] === "inbox" && route.value.query.get("call") ? " focus" : "")}><nav class="nav" aria-label="Main"><div class="brand"><${Logo} /><span>Cairn</span></div>
      <button type="button" class="jump" onClick=${() => show("palette")}><${Icon} name="find" /><span class="grow clip">Search</span><kbd>Ctrl K</kbd></button>
      <ul>${pages().map(([page, name, icon]) => html`<li><a href=${href(page)} aria-current=${here === page ? "page" : undefined}><${Icon} name=${icon} /><span>${name}</span>${page === "inbox" && html`<${Waiting} />`}</a></li>`)}</ul>
      <div class="foot"><${State} /><div class="row">${who.user ? html`<span class="clip grow"><bdi>${safe(who.name || who.user)}</bdi>${who.roles?.length ? " · " + who.roles.join(", ") : ""}</span>` : html`<span class="grow"></span>`}
        <button type="button" class="btn quiet sm" onClick=${signOut}>Sign out</button></div></div></nav>
    <main id="main" tabindex="-1"><${Banner} />${shown || html`<div class="head"><h1>Not found</h1></div><p class="empty">There is no such page. <a class="link" href=${href("sessions")}>Sessions</a></p>`}</main></div>
    ${open === "palette" && html`<${Palette} close=${() => show("")} />`}${open === "help" && html`<${Help} close=${() => show("")} />`}`;
}

// Waiting is how many calls wait, as far as a page of them says.
function Waiting() {
  const [n, set] = useState("");
  useEffect(() => {
    const read = () => document.visibilityState === "visible" && get("inbox", { limit: 100 }).then((p) => set(p.items.length ? p.items.length + (p.next ? "+" : "") : ""), () => {});
    read();
    const timer = setInterval(read, 15_000);
    return () => clearInterval(timer);
  }, [route.value.path.join("/")]);
  return n && html`<span class="n">${n}<span class="vh"> to decide</span></span>`;
}

// useConnection is the state of the page's stream, or of its requests if it has none.
function useConnection() {
  const stream = useSignal(connection), since = useSignal(unreached);
  return stream || (since && { lost: true, since, again: pollNow });
}

function State() {
  const c = useConnection();
  return html`<div class="row">${c?.lost ? html`<${Icon} name="off" /><span class="clip">Not connected</span>` : html`<span class="dot"></span><span class="clip">${c ? "Live" : "Connected"} · ${location.host}</span>`}</div>`;
}

// Banner says that the server is not reached, once that has lasted for 2 seconds.
export function Banner() {
  const c = useConnection();
  const [late, set] = useState(false);
  useEffect(() => {
    const timer = c?.lost ? setTimeout(() => set(true), Math.max(0, 2000 - (now() - c.since))) : (set(false), 0);
    return () => clearTimeout(timer);
  }, [c?.lost]);
  if (!late || !c?.lost) return null;
  return html`<div class="banner" role="status"><${Icon} name="off" /><span class="grow"><b>Not connected since ${at(c.since)}.</b> You see the state of then.</span><button type="button" class="btn" onClick=${() => c.again?.()}>Try now</button></div>`;
}

render(html`<${App} />`, document.getElementById("app"));
