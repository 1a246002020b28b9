// Reads a long conversation with the page's own script. Arguments: the script of the outline, that of the transcript. Prints what
// is wrong as a JSON list.
import { readFileSync } from "node:fs";

const url = (text) => "data:text/javascript," + encodeURIComponent(text);
const { Outline } = await import(url(readFileSync(process.argv[2], "utf8").replace("./transcript.js", url(readFileSync(process.argv[3], "utf8")))));

const wrong = [];
const expect = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) wrong.push(what + " is " + JSON.stringify(got) + ", not " + JSON.stringify(want)); };

// The server: 1,000 turns of ten messages, one of which is hidden in each third turn, and a turn of 500 messages.
const messages = [];
for (let n = 0; n < 1000; n++) for (let k = 0; k < 10; k++) messages.push({ run: "r" + n, hidden: n % 3 === 0 && k === 4 });
for (let k = 0; k < 500; k++) messages.push({ run: "long" });
messages.forEach((m, i) => Object.assign(m, { id: "m" + i, run_id: m.run, role: "assistant", parts: [{ text: "word " + i }] }));
let down = false;
const reads = [];
async function read(path, { from, to, limit, search }) {
  reads.push(path);
  if (down) throw new Error("down");
  if (path === "messages") return { items: messages.slice(from, from + limit).filter((m) => !m.hidden) };
  const items = [], stop = Math.min(to, from + 2000);
  for (let i = from; i < stop; i++) {
    const m = messages[i], same = messages[i - 1]?.run === m.run;
    if (m.hidden) continue;
    if (!items.length || !same || i - items.at(-1).index >= 40) items.push({ index: i, message_id: m.id, run_id: m.run, continues: same, places: 0 });
    if (search && m.parts[0].text.includes(search)) items.at(-1).places++;
  }
  return { items, next: stop, has_more: stop < to };
}

const outline = new Outline("s", read);
await Promise.all([outline.extend(9_995), outline.extend(9_000), outline.extend(10_450)]);
expect("the last turn", outline.rows.at(-1).number, 1001);
expect("the names that are not unique", outline.rows.length - new Set(outline.rows.map((r) => r.name)).size, 0);
expect("the reads of messages so far", reads.filter((p) => p === "messages").length, 0);

const text = (row) => row.items.map((item) => item.text);
const near = (i) => outline.rows.slice(Math.max(0, i - 5), i + 5);
let most = 0;
for (let i = 0; i < outline.rows.length; i += 5) { // a reader of all of it
  outline.show(near(i));
  await Promise.all(near(i).map((row) => outline.load(row)));
  most = Math.max(most, outline.held);
  for (const row of near(i)) {
    const end = outline.rows[row.at + 1]?.index ?? 10_450;
    expect("row " + row.at, text(row), messages.slice(row.index, end).filter((m) => !m.hidden).map((m) => m.parts[0].text));
  }
}
if (most > 500) wrong.push(most + " messages are held");
expect("the messages in the rows", outline.rows.filter((r) => r.items).reduce((n, r) => n + r.items.length, 0), outline.held);

const found = [];
for await (const [row, n] of outline.search("word 999")) found.push([row.number, n]);
expect("the places", found, [[100, 1], [1000, 9]]);

outline.show(near(0)); // reads what has been let go
down = true;
await outline.load(outline.rows[500]).then(() => wrong.push("a read that fails does not say so"), () => {});
down = false;
const count = reads.length;
outline.show([outline.rows[500]]); // not at once again
expect("the reads after an error", reads.length - count, 0);
await outline.load(outline.rows[500]);
expect("the row after an error", outline.rows[500].items.length, 10);
console.log(JSON.stringify(wrong));
process.exit(0);
