// A conversation: the turns of a session as chapters, which follow the answer while the reader is at the end.

import { html, useEffect, useLayoutEffect, useRef, useSignal, useState } from "./html.js";
import { may } from "./api.js";
import { Icon } from "./icons.js";
import { Status, Time, announce, toast } from "./parts.js";
import { Item } from "./message.js";
import { Ask } from "./askcard.js";
import { Find } from "./find.js";
import { useKeys } from "./keys.js";
import { Space, useRows } from "./rows.js";
import { rowsOf } from "./outline.js";
import { Older, useVersions } from "./versions.js";
import { runsOf } from "./transcript.js";
import { cost, many, safe, span } from "./format.js";

const statusOf = { running: "running", completed: "", failed: "failed", interrupted: "stopped", suspended: "waiting" };

// working is how long the runs of a turn have worked, in seconds.
const working = (runs) => runs.reduce((sum, r) => sum + (r.ended_at ? Date.parse(r.ended_at) - Date.parse(r.started_at) : 0), 0) / 1000;

function sum(runs) {
  const all = { cost_nanos: 0, priced_calls: 0 };
  for (const r of runs) {
    all.cost_nanos += r.usage?.cost_nanos || 0;
    all.priced_calls += r.usage?.priced_calls || 0;
  }
  return all;
}

function Head({ number, runs, fork, running }) {
  const last = runs.at(-1), first = runs[0];
  const steps = runs.reduce((n, r) => n + r.steps, 0);
  const facts = [many(steps, "step"), span(working(runs)), ...(sum(runs).priced_calls ? [cost(sum(runs))] : [])].join(" · ");
  const status = last ? statusOf[last.status.replace(/_.*/, "")] : running ? "running" : ""; // of old turns the run is not known
  return html`<h2 class="turn" id=${"turn-" + number} tabindex="-1"><a href=${"#turn-" + number}><b>Turn ${number}</b></a>${first && html`<span><${Time} time=${first.started_at} /></span>`}<i></i>
    <span class="clip">${last && last.status !== "running" ? facts : ""}</span>${status && html`<${Status} status=${status} />`}${fork && first && html`<button type="button" class="btn quiet icon" aria-label=${"Fork turn " + number} onClick=${() => fork(number)}><${Icon} name="fork" /></button>`}</h2>`;
}

// useFollowing follows the end of the box until the reader moves up, and again once the reader is back at the end. look is
// called when the reader moves, ends when the reader goes to the beginning or the end.
function useFollowing(box, following, setAway, look, ends) {
  const last = useRef();
  last.current = ends;
  useEffect(() => { // only what the reader does ends the following; growth never does
    const el = box.current;
    let moved = 0, was = 0; // until when the reader moves the box, and where it was
    const move = () => { moved = Math.max(moved, performance.now() + 1000); };
    const leave = () => {
      move();
      if (el.scrollHeight <= el.clientHeight + 1) return;
      following.current = false;
      look();
    };
    const keys = (ev) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(ev.target.tagName)) return;
      if (last.current[ev.key] && !ev.ctrlKey && !ev.shiftKey && !ev.altKey && !ev.metaKey) { // how far that is, only the rows know
        ev.preventDefault();
        last.current[ev.key]();
      } else if (["PageUp", "ArrowUp", "Home"].includes(ev.key) || ev.key === " " && ev.shiftKey) leave();
      else if (["PageDown", "ArrowDown", "End", " "].includes(ev.key)) move();
    };
    const scrolled = () => {
      const near = el.scrollHeight - el.scrollTop - el.clientHeight < 60, down = el.scrollTop > was;
      was = el.scrollTop;
      if (performance.now() > moved || near === following.current) return;
      if (!near) following.current = false;
      else if (down) {
        following.current = true;
        setAway(false);
      }
      if (!following.current) move(); // a box that was pushed moves on
      look();
    };
    const events = [["wheel", (ev) => (ev.deltaY < 0 ? leave() : move())], ["touchmove", move], ["keydown", keys], ["pointerdown", () => { moved = Infinity; }],
      ["pointerup", () => { moved = performance.now() + 1000; }], ["pointercancel", () => { moved = performance.now() + 1000; }], ["scroll", scrolled]];
    for (const [name, f] of events) el.addEventListener(name, f, { passive: name !== "keydown" });
    return () => events.forEach(([name, f]) => el.removeEventListener(name, f));
  }, []);
}

// useAnchor goes to the turn or message that the address names after its #, once the turns are known. find returns the row of
// a message.
function useAnchor(ready, list, find, show) {
  const go = async () => {
    const name = decodeURIComponent(location.hash.slice(1)), number = /^turn-(\d+)$/.exec(name)?.[1];
    const row = number ? list.find((turn) => turn.number === Number(number)) : name[0] === "m" && await find(name.slice(1)).catch(() => null);
    if (!row) return;
    await show(row);
    const el = document.getElementById(name);
    if (name[0] === "m") el?.scrollIntoView({ block: "start" });
    el?.focus({ preventScroll: true });
  };
  const last = useRef();
  last.current = go;
  useEffect(() => {
    if (!ready) return;
    last.current();
    const changed = () => last.current();
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, [ready]);
}

// frames waits until what was changed is in the page.
const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

// Conversation shows a live session. chat is set for end users: there are no chapters and no costs.
export function Conversation({ live, chat, children }) {
  useSignal(live.tick);
  const box = useRef(), log = useRef(), following = useRef(true), [away, setAway] = useState(false);
  const [finding, setFinding] = useState(false);
  const { version, show: showOf, of: versionsOf } = useVersions(live);
  const t = live.t, outline = version ? version.outline : live.part ? null : live.outline;
  const list = version ? rowsOf(version.t, live.runs, version.outline) : live.rows(), known = runsOf(live.runs);
  const rows = useRows(box, log, list.map((turn) => turn.name), following);
  const shown = useRef();
  shown.current = list;

  const toEnd = () => {
    following.current = true;
    setAway(false);
    rows.look();
    requestAnimationFrame(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; });
  };
  const element = async (row) => {
    if (!row.items) await outline.load(row);
    await frames();
    return log.current?.querySelector('[data-row="' + CSS.escape(row.name) + '"]');
  };
  const show = (row) => {
    rows.to(row.name);
    return element(row);
  };
  const find = async (id) => list.find((turn) => turn.items?.some((item) => item.id === id)) || await outline?.find(id);
  const showVersion = (item, k) => showOf(item, k).then(frames).then(() => {
    const row = shown.current.find((turn) => turn.items?.some((i) => i.id === item.id)) || shown.current.find((turn) => turn.id === item.id);
    if (row) rows.to(row.name);
  }).catch((err) => toast(err.message, { error: true }));
  useLayoutEffect(() => { if (!following.current && live.running) setAway(true); });
  useFollowing(box, following, setAway, rows.look, { Home: () => list.length && rows.to(list[0].name), End: toEnd });
  useAnchor(!!live.status && !live.part, list, find, show);
  useEffect(() => outline?.show(rows.parts.filter((p) => list[p.i]?.block).map((p) => list[p.i])));
  useEffect(() => { live.follow = toEnd; }, [live]);
  useKeys({ "ctrl f": () => setFinding(true) });
  const running = live.running;
  useEffect(() => { if (!running && t) announce(t.items.some((i) => i.kind === "tool" && i.output === undefined) ? "The assistant waits for an answer." : "The answer is complete."); }, [running]);

  const took = (item) => {
    const r = live.timeline?.calls.get(item.call);
    return r && r.to && r.kind !== "wait" ? (r.to - r.from) / 1000 : undefined;
  };
  const asks = new Map(version ? [] : live.calls.filter((c) => c.session_id === live.id).map((c) => [c.tool_call_id || c.id, c]));
  const lastSaid = t.items.findLast((i) => i.kind === "user")?.id;
  const lastText = t.items.findLast((i) => i.kind === "text");
  const empty = !list.length && !live.pending.length;
  const facts = (turn, n) => (live.part ? {} : { "aria-label": "Turn " + turn.number + (turn.continues ? ", continued" : ""), "aria-posinset": n + 1, "aria-setsize": list.length });
  const draw = (turn, n) => html`<article key=${turn.name} data-row=${turn.name} class="chapter" ...${facts(turn, n)}>${!chat && !live.part && !turn.continues && html`<${Head} number=${turn.number} runs=${known.get(turn.key) || []} fork=${!version && may("user") && live.forks} running=${running && n === list.length - 1} />`}
      ${turn.items.map((item, k) => asks.has(item.call) ? html`<${Ask} key=${item.call} call=${asks.get(item.call)} live=${live} chat=${chat} />` : html`<${Item} key=${k + item.kind} item=${item} anchor=${item.id && turn.items.findIndex((x) => x.id === item.id) === k ? "m" + item.id : undefined} live=${version ? null : live} chat=${chat} took=${took(item)} last=${item === lastText ? lastSaid : ""}
        versions=${item.kind === "user" && versionsOf(item)} onVersion=${showVersion} />`)}</article>`;
  return html`${finding && html`<${Find} turns=${list} count=${t.items.length} earlier=${outline} to=${(row) => rows.to(row.name)} at=${element} close=${() => { setFinding(false); box.current.focus({ preventScroll: true }); }} />`}
    <div class="scroll convbox" ref=${box} tabindex="0" role="region" aria-label="Conversation"><div class=${"conv" + (chat ? " chatting" : "")} ref=${log} role="log" aria-live="off" aria-busy=${String(running)} aria-label="Messages">
    ${rows.parts.map((p) => (p.space ? html`<${Space} key=${"before " + p.before} height=${p.space} />` : list[p.i].items ? draw(list[p.i], p.i) : html`<${Space} key=${"of " + list[p.i].name} height=${rows.height(p.i)} />`))}
    ${empty && html`<p class="empty t3">Nothing was said yet.</p>`}
    ${!version && live.status?.session.status === "failed" && t.items.at(-1)?.kind !== "error" && html`<${Item} item=${{ kind: "error", code: live.status.error?.code, text: live.status.error?.message || "The turn has failed." }} chat=${chat} />`}
    ${version && html`<${Older} version=${version} count=${versionsOf(version)} newest=${() => showVersion(version, -1)} chat=${chat} />`}
    ${!version && live.pending.map((p) => html`<div class="msg u pending" key=${p.key}><div dir="auto">${safe(p.text || p.files.map((f) => f.name).join(", "))}</div></div><p class="macts u t3">${p.state === "sending" ? "Sending…" : "Sent"}</p>`)}
    ${!version && running && !t.items.some((i) => i.live) && html`<p class="working t3"><${Icon} name="run" />${chat ? "Working…" : "Waits for the model…"}</p>`}
    ${!version && live.calls.filter((c) => !asks.has(c.tool_call_id || c.id) || !t.items.some((i) => i.call === (c.tool_call_id || c.id))).map((c) => html`<${Ask} key=${c.id} call=${c} live=${live} chat=${chat} />`)}
    ${children}
  </div></div>${away && html`<div class="followrow"><button type="button" class="pill" onClick=${toEnd}>New words <${Icon} name="down" /></button></div>`}`;
}
