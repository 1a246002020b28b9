// The messages of a conversation.

import { html, useEffect, useState } from "./html.js";
import { file, mayRun } from "./api.js";
import { Icon } from "./icons.js";
import { Copy, toast } from "./parts.js";
import { Markdown } from "./markdown.js";
import { Card, Note } from "./card.js";
import { useKept } from "./rows.js";
import { Arrows } from "./versions.js";
import { safe, span } from "./format.js";

const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

// Item shows one item of a transcript. anchor is the id of its element, if links lead to it; chat is set for end users.
export function Item({ item, anchor, live, chat, took, last, versions, onVersion }) {
  switch (item.kind) {
    case "user": return html`<${Said} item=${item} anchor=${anchor} live=${live} versions=${versions} onVersion=${onVersion} />`;
    case "text": return html`<${Answer} item=${item} anchor=${anchor} live=${live} last=${last} />`;
    case "tool": return chat ? html`<${Note} item=${item} />` : html`<${Card} item=${item} took=${took} open=${item.state === "waiting"} />`;
    case "thinking": return html`<${Thinking} item=${item} />`;
    case "file": return html`<${File} item=${item} />`;
    case "error":
      return html`<div class="card f" role="alert"><div class="h"><${Icon} name="fail" /><b class="grow">The answer failed</b><span class="t3">${safe(item.code)}</span></div>
        <div class="body t2">${chat ? "I could not answer. Please try again later." : safe(item.text)}</div></div>`;
  }
  return html`<p class="note"><${Icon} name="stop" />${safe(item.text)}</p>`;
}

// Said is a message of the user. It can be edited: then the turn that it began is replaced.
function Said({ item, anchor, live, versions, onVersion }) {
  const [draft, set] = useState(null);
  const [sending, setSending] = useState(false);
  const may = live && mayRun() && !live.running && item.id && !item.truncated;
  const save = async () => {
    setSending(true);
    try {
      await live.replace(item.id, [{ type: "text", text: draft }]);
      set(null);
    } catch (err) {
      toast(err.message, { error: true });
    }
    setSending(false);
  };
  if (draft !== null) {
    return html`<div class="msg u editing"><div><textarea class="field" rows="3" aria-label="Edit the message" dir="auto" value=${draft} onInput=${(ev) => set(ev.target.value)}
        onKeyDown=${(ev) => { if (ev.key === "Escape") { ev.stopPropagation(); set(null); } }}></textarea>
      <p class="sm t2">The answers after it are replaced. The version before stays readable.</p>
      <div class="row"><button type="button" class="btn" onClick=${() => set(null)}>Cancel</button><button type="button" class="btn pri" disabled=${sending || !draft.trim()} onClick=${save}>Send again</button></div></div></div>`;
  }
  return html`<div class="msg u" id=${anchor} tabindex="-1"><div dir="auto" class="text">${safe(item.text)}</div></div>
    <div class="macts u"><${Copy} text=${item.text} />${may && html`<button type="button" class="btn quiet sm" onClick=${() => set(item.text)}><${Icon} name="edit" />Edit</button>`}
      ${versions && html`<${Arrows} ...${versions} show=${(k) => onVersion(item, k)} />`}</div>`;
}

function Answer({ item, anchor, live, last }) {
  const again = () => live.replace(last, null).catch((err) => toast(err.message, { error: true }));
  return html`<div class=${"msg a" + (item.live ? " live" : "")} id=${anchor} tabindex="-1" dir="auto"><${Markdown} text=${item.text} />
    ${item.sources?.length > 0 && html`<ol class="sources" aria-label="Sources">${unique(item.sources).map((s) => html`<li>${/^https?:/i.test(s.url || "")
      ? html`<a class="link" href=${s.url} target="_blank" rel="noopener noreferrer" title=${safe(s.quote)}>${safe(s.title || s.url)}</a>` : html`<span title=${safe(s.quote)}>${safe(s.title || s.quote || "A document")}</span>`}</li>`)}</ol>`}</div>
    ${!item.live && html`<div class="macts"><${Copy} text=${item.text} />${last && live && mayRun() && !live.running && html`<button type="button" class="btn quiet sm" onClick=${again}><${Icon} name="retry" />Answer again</button>`}</div>`}`;
}

function unique(sources) {
  const seen = new Set();
  return sources.filter((s) => {
    const key = (s.url || "") + "\n" + (s.title || s.quote || "");
    return !seen.has(key) && seen.add(key);
  });
}

function Thinking({ item }) {
  const [open, set] = useKept(item, false);
  const words = item.live ? "Reasons…" : item.seconds ? "Reasoned for " + span(item.seconds) : "Reasoning";
  return html`<button type="button" class="think" aria-expanded=${String(open)} onClick=${() => set(!open)}><${Icon} name=${open ? "down" : "right"} />${words}</button>
    ${open && html`<div class="thinkbody" dir="auto">${safe(item.text)}</div>`}`;
}

// File is a picture, or a link that saves the file.
export function File({ item }) {
  const [url, set] = useState(item.url.startsWith("data:") ? item.url : "");
  const [lost, lose] = useState(false);
  const web = /^https?:/i.test(item.url);
  useEffect(() => {
    if (item.url.startsWith("data:")) return set(item.url);
    if (item.path) file(item.path).then(set, () => lose(true));
  }, [item.path, item.url]);
  const name = safe(item.name);
  const picture = pictures.includes(item.type) && !web;
  return html`<div class=${"file" + (item.mine ? " mine" : "")}>${web ? html`<a class="link" href=${item.url} target="_blank" rel="noopener noreferrer">${name}</a>`
    : lost || !url && !item.path ? html`<span class="t3">${name} is not available</span>`
    : picture ? html`<span class="frame">${url && html`<img src=${url} alt=${name} />`}</span>`
    : html`<a class="attached" download=${name} href=${url || undefined}><${Icon} name="file" /><span class="clip">${name}</span><span class="t3">${safe(item.type)}</span></a>`}</div>`;
}
