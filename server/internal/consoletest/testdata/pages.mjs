// Opens every page of a seeded site, wide and narrow, light and dark, and looks for what is wrong with it. Arguments: the path
// of Chromium, the site, a directory for screenshots or an empty text. Prints a JSON object: what each page does wrong.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [executablePath, site, dir] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const found = {};

// search opens the search of a conversation, fork the form of a fork with another answer, and version an earlier version.
const search = async (page) => {
  await page.keyboard.press("Control+f");
  await page.getByRole("searchbox", { name: "Search the conversation" }).fill("order 1");
  await page.getByText(/^1 of/).waitFor();
};
const fork = async (page) => {
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.getByLabel("Another answer").selectOption({ index: 1 });
  await page.getByRole("dialog").getByLabel("Decision").waitFor();
};
const version = async (page) => {
  await page.getByRole("button", { name: "Previous version" }).click();
  await page.getByRole("button", { name: "Continue from here" }).waitFor();
};

// The pages, with the text that shows that they are complete, who opens them, and what is done there first.
const pages = [
  ["signin", null, "Sign in", ""],
  ["inbox", "inbox?call=order-42", "As proposed", "n.okt"],
  ["inbox-question", "inbox?call=colour", "Send the answer", "n.okt"],
  ["inbox-list", "inbox", "wait for you", "n.okt"],
  ["inbox-hostile", "inbox?tool=refund&call=hostile-call", "As proposed", "n.okt"],
  ["sessions", "sessions", "need someone", "n.okt"],
  ["sessions-empty", "sessions?q=nothing-like-this", "No session matches.", "n.okt"],
  ["session-waiting", "s/order-42", "Waits for an approval", "n.okt"],
  ["session-failed", "s/order-44", "Failed at", "n.okt"],
  ["session-running", "s/running", "Stop", "n.okt"],
  ["session-done", "s/lamp", "I would take one of these", "n.okt"],
  ["session-rich", "s/rich", "A heading", "n.okt"],
  ["conversation-search", "s/long", "Order 200", "n.okt", search],
  ["session-fork", "s/order-42", "Waits for an approval", "n.okt", fork],
  ["session-fork-question", "s/colour", "Waits for the answer", "n.okt", fork],
  ["session-version", "s/edited", "for a gift", "n.okt", version],
  ["session-events", "s/lamp?tab=events", "run_start", "n.okt"],
  ["session-state", "s/order-42?tab=state", "state", "n.okt"],
  ["session-hostile", "s/hostile-1", "You said", "n.okt"],
  ["session-rtl", "s/hostile-4", "You said", "n.okt"],
  ["compare", "s/order-42/compare/forked", "Next difference", "n.okt"],
  ["compare-fork", "s/order-42/compare/shorter", "Next difference", "n.okt"],
  ["session-files", "s/report?tab=files", "For the user", "n.okt"],
  ["session-scores", "s/report?tab=scores", "helpful", "n.okt"],
  ["effects", "effects", "are unknown", "n.okt"],
  ["memory", "memory?user=j.amsel", "5 Elm Road", "n.okt"],
  ["memory-entry", "memory?user=j.amsel&entry=moved", "3 Ash Lane", "n.okt"],
  ["memory-search", "memory?user=j.amsel&q=Elm&entry=moved", "3 Ash Lane", "n.okt"],
  ["memory-hostile", "memory?user=j.amsel&entry=hostile-0", "Source", "n.okt"],
  ["memory-quarantine", "memory?agent=support&user=j.amsel&entry=voucher", "Promote", "k.ilves"],
  ["new", "new", "What should it do?", "n.okt"],
  ["usage", "usage", "Cost per day", "n.okt"],
  ["ops", "ops", "Operations", "n.okt"],
  ["missing", "s/no-such", "Not found", "n.okt"],
  ["chat", "chat/order-42", "I am sorry about the cups", "j.amsel"],
  ["chat-version", "chat/edited", "for a gift", "j.amsel", version],
  ["chat-new", "chat", "How can I help?", "j.amsel"],
];

const sizes = [[1400, 900], [900, 700], [360, 780]];

// whole runs axe in each size and scheme. Otherwise it runs wide and light, and narrow and dark.
const whole = !!process.env.CAIRN_SOAK;

// overflows lists the elements that reach beyond the window, except for what scrolls sideways or ends with an ellipsis.
function overflows() {
  const wide = innerWidth, out = [];
  if (document.documentElement.scrollWidth > wide) out.push("the page is " + document.documentElement.scrollWidth + " wide");
  for (const el of document.querySelectorAll(".scroll")) { // up and down only
    if (el.scrollWidth > el.clientWidth + 1) out.push(el.className + " has " + el.scrollWidth + " of " + el.clientWidth);
  }
  for (const el of document.querySelectorAll("body *")) {
    const box = el.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || box.right <= wide + 1 || el.closest("svg")) continue;
    let up = el.parentElement, held = false;
    for (; up && !held; up = up.parentElement) {
      const style = getComputedStyle(up);
      held = up.getBoundingClientRect().right <= wide + 1 && (/auto|scroll/.test(style.overflowX) || style.overflowX === "hidden" && (style.textOverflow === "ellipsis" || style.clipPath !== "none"));
    }
    if (!held) out.push(el.tagName + "." + el.className + " ends at " + Math.round(box.right));
  }
  return out.slice(0, 3);
}

// callOf returns the address of the call of a session in the inbox.
async function callOf(context, session, who) {
  const list = await (await context.request.get(site + "inbox?limit=100", { headers: { Authorization: "Bearer " + who } })).json();
  const call = list.items.find((c) => c.root_id === session);
  return encodeURIComponent(call.root_id + "/" + call.id);
}

// visit opens a page once, and looks at it in each size and scheme.
async function visit([name, path, text, who, first]) {
  const wrong = (found[name] = []);
  const context = await browser.newContext({ viewport: { width: name.endsWith("-list") ? 360 : 1400, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (err) => wrong.push("the page fails: " + err.stack));
  page.on("console", (m) => /Content Security Policy|Refused/.test(m.text()) && wrong.push(m.text()));
  page.on("request", (r) => { if (!r.url().startsWith(site) && !r.url().startsWith("data:")) wrong.push("a request to " + r.url()); });
  page.on("dialog", (d) => { wrong.push("a dialog: " + d.message()); d.dismiss(); });
  try {
    if (who) await context.addInitScript((token) => sessionStorage.setItem("cairn-token", token), who);
    const of = /call=(.+)$/.exec(path || "");
    await page.goto(site + "console/" + (of ? path.replace(of[1], await callOf(context, of[1], who)) : path ?? ""));
    await page.getByText(text).first().waitFor({ state: "attached" });
    await page.waitForFunction(() => !document.querySelector(".loading"));
    if (name.startsWith("session-")) await page.waitForFunction(() => document.querySelector(".trow.ch, .events li, .values, .panel"));
    if (first) await first(page);
    await page.evaluate(axe);
    for (const [width, height] of sizes) {
      await page.setViewportSize({ width, height });
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const id = `${width} ${colorScheme}: `;
        wrong.push(...(await page.evaluate(overflows)).map((w) => id + w));
        if (dir) await page.screenshot({ path: join(dir, `${name}-${width}-${colorScheme}.png`) });
        if (!whole && !(width === 1400 && colorScheme === "light") && !(width === 360 && colorScheme === "dark")) continue;
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], elementRef: false }));
        for (const v of violations) wrong.push(id + `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message || n.html.slice(0, 160))).join(" | ")}`);
      }
    }
  } catch (err) {
    wrong.push(err.message + "\n" + (await page.locator("body").innerText().catch(() => "")).slice(0, 600));
  }
  await context.close();
}

const only = process.argv[5];
for (const page of pages) if (!only || page[0].startsWith(only)) await visit(page);

await browser.close();
console.log(JSON.stringify(found));
