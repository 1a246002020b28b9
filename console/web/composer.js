// The field in which messages are written.

import { html, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { toast } from "./parts.js";
import { safe } from "./format.js";

// largest is the size of a file that may be attached, in bytes: what a request may have, as base64.
const largest = 2.5 * 1024 * 1024;

const drafts = new Map(); // what was written and not sent, by session

function asData(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, media_type: file.type || "application/octet-stream", url: reader.result });
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

// Composer calls send(text, files, { queue }) and clears itself once that has begun; if it fails, the text is back.
export function Composer({ id, send, stop, hint, placeholder = "Write a message", running }) {
  const [text, setText] = useState(drafts.get(id) || "");
  const [files, setFiles] = useState([]);
  const area = useRef(), picker = useRef();
  const write = (t) => {
    drafts.set(id, t);
    setText(t);
  };
  useLayoutEffect(() => {
    const el = area.current;
    el.rows = 1;
    while (el.rows < 10 && el.scrollHeight > el.clientHeight + 2) el.rows++;
  }, [text]);
  const submit = async (queue) => {
    const said = text.trim(), with_ = files;
    if (!said && !with_.length) return;
    write("");
    setFiles([]);
    try {
      await send(said, with_, { queue });
    } catch (err) {
      write(said);
      setFiles(with_);
      toast(err.message, { error: true });
    }
    area.current?.focus();
  };
  const add = async (list) => {
    for (const f of list) {
      if (f.size > largest) toast(f.name + " is too large: at most 2.5 MB.", { error: true });
    }
    const read = await Promise.all([...list].filter((f) => f.size <= largest).map(asData));
    setFiles((was) => [...was, ...read]);
  };
  const keys = (ev) => {
    if (ev.key !== "Enter" || ev.shiftKey || ev.isComposing) return;
    ev.preventDefault();
    submit(ev.altKey);
  };
  return html`<form class="composer" onSubmit=${(ev) => { ev.preventDefault(); submit(false); }} onDragOver=${(ev) => ev.preventDefault()} onDrop=${(ev) => { ev.preventDefault(); add(ev.dataTransfer.files); }}>
    ${files.length > 0 && html`<ul class="attachments" aria-label="Attached files">${files.map((f, i) => html`<li class="chip"><${Icon} name="file" /><span class="clip">${safe(f.name)}</span>
      <button type="button" class="btn quiet icon" aria-label=${"Remove " + f.name} onClick=${() => setFiles(files.filter((_, k) => k !== i))}><${Icon} name="x" /></button></li>`)}</ul>`}
    <div class="in"><input type="file" multiple class="vh" tabindex="-1" aria-hidden="true" ref=${picker} onChange=${(ev) => { add(ev.target.files); ev.target.value = ""; }} />
      <button type="button" class="btn quiet icon" aria-label="Attach a file" onClick=${() => picker.current.click()}><${Icon} name="clip" /></button>
      <textarea ref=${area} rows="1" dir="auto" aria-label="Message" placeholder=${placeholder} value=${text} onInput=${(ev) => write(ev.target.value)} onKeyDown=${keys}
        onPaste=${(ev) => { if (ev.clipboardData.files.length) { ev.preventDefault(); add(ev.clipboardData.files); } }}></textarea>
      ${running && stop && html`<button type="button" class="btn" onClick=${stop}><${Icon} name="stop" />Stop</button>`}
      <button type="submit" class="btn pri icon" aria-label="Send" disabled=${!text.trim() && !files.length}><${Icon} name="up" /></button></div>
    ${hint && html`<p class="hint"><span class="clip">${hint}</span></p>`}</form>`;
}
