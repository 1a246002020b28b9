// The scores of a session: judgements of it, its turns and its answers.

import { html, useLoad, useState } from "./html.js";
import { ask, get, may, of } from "./api.js";
import { Failure, Loading, Panel, Time, toast } from "./parts.js";
import { safe } from "./format.js";

// targets are what can be judged: [[value, name]].
function targets(live) {
  const answers = (live.t?.items || []).filter((i) => i.kind === "text" && i.id).slice(-50).reverse();
  return [["", "the session"], ...live.runs.slice(-50).reverse().map((r) => ["run:" + r.id, "turn " + r.turn + (r.status === "completed" ? "" : ", " + r.status)]),
    ...answers.map((i) => ["message:" + i.id, "answer “" + i.text.slice(0, 40) + (i.text.length > 40 ? "…" : "") + "”"])];
}

export function Scores({ live }) {
  const path = "sessions/" + of(live.id) + "/scores";
  const { value, error, again } = useLoad((signal) => get(path, {}, { signal }), [live.id, live.status?.session.version]);
  const names = new Map(targets(live));
  if (error && !value) return html`<${Failure} what="The scores did not load." error=${error} again=${again} />`;
  if (!value) return html`<${Loading} />`;
  const of_ = (s) => names.get(s.message_id ? "message:" + s.message_id : s.run_id ? "run:" + s.run_id : "") || (s.message_id ? "an answer" : "a turn");
  return html`<div class="scroll pad" tabindex="0" role="region" aria-label="Scores of the session"><div class="stack">${may("user") && html`<${Give} live=${live} path=${path} again=${again} />`}
    <${Panel} title="Scores" none="Nobody has judged this session." head=${[["Name"], ["Value", "num"], ["Of"], ["By", "only-lt"], ["At", "num"]]} rows=${[...value.items].reverse().map((s) => [html`<span dir="auto" title=${safe(s.comment)}>${safe(s.name || "score")}</span>`, s.value, html`<span dir="auto" title=${safe(s.comment)}>${safe(of_(s))}</span>`, safe(s.by || "–"), html`<${Time} time=${s.at} since />`])} /></div></div>`;
}

// Give is the form of a new score.
function Give({ live, path, again }) {
  const [name, setName] = useState(""), [text, setText] = useState(""), [comment, note] = useState(""), [target, aim] = useState("");
  const value = Number(text), good = text.trim() !== "" && Number.isFinite(value);
  const send = async (ev) => {
    ev.preventDefault();
    const [kind, id] = target ? [target.slice(0, target.indexOf(":")), target.slice(target.indexOf(":") + 1)] : [];
    try {
      await ask("POST", path, { name: name.trim(), value, comment: comment.trim(), ...(kind ? { [kind + "_id"]: id } : {}) });
      setText("");
      note("");
      toast("The score is kept.");
      again();
    } catch (err) {
      toast(err.message, { error: true });
    }
  };
  return html`<form class="stack" aria-label="Give a score" onSubmit=${send}><label class="stack"><span class="lab">Judge</span><select class="field" value=${target} onChange=${(ev) => aim(ev.target.value)}>${targets(live).map(([v, n]) => html`<option value=${v} selected=${v === target}>${safe(n)}</option>`)}</select></label>
    <div class="row"><input class="field" aria-label="Name of the score" placeholder="Name: helpful" value=${name} onInput=${(ev) => setName(ev.target.value)} /><input class="field" aria-label="Value" inputmode="decimal" placeholder="Value: 1" value=${text} aria-invalid=${text && !good ? "true" : undefined} onInput=${(ev) => setText(ev.target.value)} /></div>
    <div class="row"><input class="field grow" aria-label="Comment" placeholder="Why (optional)" dir="auto" value=${comment} onInput=${(ev) => note(ev.target.value)} /><button class="btn pri" disabled=${!good}>Give</button></div></form>`;
}
