// Applies events to transcripts, with the page's own script. Arguments: the script, and a JSON object with a list of events
// by name. Prints a JSON object: by name, the items as text, those that are not in the transcript yet in brackets.
import { readFileSync } from "node:fs";

const { begin, apply } = await import("data:text/javascript," + encodeURIComponent(readFileSync(process.argv[2], "utf8")));
const shown = {};
for (const [name, events] of Object.entries(JSON.parse(process.argv[3]))) {
  const t = begin({ session: { id: "s", message_count: 0, status: "active", run_id: "r" }, messages: [], cursor: "0" });
  events.forEach((ev, i) => apply(t, ev, String(i + 1)));
  shown[name] = t.items.map((item, i) => {
    const text = item.text || item.tool || item.name;
    if (i < t.committed && ("live" in item || "step" in item)) return text + " is still live";
    return i < t.committed ? text : "[" + text + "]";
  }).join(" ");
}
console.log(JSON.stringify(shown));
