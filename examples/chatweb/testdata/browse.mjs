// Builds the page and drives it in Chromium, against processes of the example. Arguments: the page's directory, the example's
// program, a directory for files, and the path of Chromium. Prints a JSON object: what each case found to be wrong.
import { spawn } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";
import { chromium } from "playwright-core";

const [page, program, dir, browserPath] = process.argv.slice(2);
const modules = join(dirname(fileURLToPath(import.meta.url)), "node_modules");
const dist = join(dir, "dist");
await esbuild.build({
  entryPoints: [join(page, "chat.jsx")], bundle: true, format: "esm", jsx: "automatic", outdir: dist, nodePaths: [modules], logLevel: "error",
});
for (const file of ["index.html", "chat.css"]) cpSync(join(page, file), join(dist, file));

// A process of the example. It is asked for a free port, or takes one that it had before.
const start = async (db, addr = "127.0.0.1:0") => {
  const child = spawn(program, ["-addr", addr, "-db", join(dir, db), "-page", dist], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((done, fail) => {
    child.stdout.once("data", (line) => done(String(line).trim()));
    child.once("exit", (code) => fail(new Error(`the example ended with ${code}`)));
  });
  const kill = (signal = "SIGKILL") => new Promise((done) => { child.once("exit", done); child.kill(signal); });
  return { url, addr: url.slice("http://".length), kill };
};

const browser = await chromium.launch({
  executablePath: browserPath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});

const story = `Once upon a time ${"there was a stone on a hill, and ".repeat(20)}the end.`;

// Tab is a page as its user sees it.
class Tab {
  constructor(page, posts) { this.page = page; this.posts = posts; }
  static async open(context, url) {
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    const posts = [];
    page.on("request", (r) => r.method() === "POST" && r.url().endsWith("/chat") && posts.push(r));
    await page.goto(url);
    await page.getByLabel("Message").waitFor();
    return new Tab(page, posts);
  }
  address() { return this.page.url(); }
  async say(text) {
    await this.page.getByLabel("Message").fill(text);
    await this.page.getByRole("button", { name: "Send" }).click();
  }
  press(name) { return this.page.getByRole("button", { name, exact: true }).click(); }
  shows(text) { return this.page.getByText(text).first().waitFor(); }
  // release has a long answer continue, which stops in the middle until then.
  release() { writeFileSync(join(dir, new URL(this.address()).hash.slice(1)), ""); }
  // settled waits until nothing happens any more.
  async settled() {
    const until = Date.now() + 120_000;
    for (let quiet = 0; quiet < 10; await this.page.waitForTimeout(20)) {
      if (Date.now() > until) throw new Error("the page does not come to rest");
      quiet = (await this.page.getByRole("status").textContent()) === "ready" ? quiet + 1 : 0;
    }
  }
  // text is what the messages show, a line for each.
  async text() {
    const items = await this.page.locator("main > ol > li").all();
    const lines = await Promise.all(items.map(async (li) =>
      `${await li.getAttribute("class")}: ${(await li.locator(".text, .joined, .output").allTextContents()).join(" | ")}`));
    return lines.join("\n");
  }
}

const cases = {
  async "text, a tool of the server's, and one of the page's"({ tab, same }) {
    await tab.say("hi");
    await tab.settled();
    await tab.say("the weather?");
    await tab.settled();
    await tab.say("where am I?");
    await tab.settled();
    const want = `user: hi
assistant: You said: hi
user: the weather?
assistant: "Sunny in Oslo" | Done: "Sunny in Oslo"
user: where am I?
assistant: {"city":"Bergen"} | Done: {"city":"Bergen"}`;
    same(await tab.text(), want);
    same(tab.posts.length, 4); // one for the result of the page's tool
    await tab.page.reload();
    await tab.shows("where am I?");
    await tab.settled();
    same(await tab.text(), want);
    same(tab.posts.length, 4);
  },
  async "approval"({ tab, same }) {
    await tab.say("refund me");
    await tab.press("Approve");
    await tab.shows("Done:");
    await tab.settled();
    same(await tab.text(), `user: refund me\nassistant: Let me refund that.  | "refunded 9900 cents of order A-17" | Done: "refunded 9900 cents of order A-17"`);
    same(tab.posts.length, 2);
  },
  async "denial"({ tab, same }) {
    await tab.say("refund me");
    await tab.press("Deny");
    await tab.shows("Done:");
    await tab.settled();
    same((await tab.text()).includes("not approved by the user: the user declined"), true);
  },
  async "approval with other arguments, after a reload"({ tab, same }) {
    await tab.say("refund me");
    await tab.shows("Approve");
    await tab.page.reload();
    await tab.page.getByLabel("Arguments").fill(`{"order": "A-17", "cents": 100}`);
    await tab.press("Approve");
    await tab.shows("Done:");
    await tab.settled();
    same((await tab.text()).includes("refunded 100 cents of order A-17"), true);
    same((await tab.text()).includes("9900"), false);
  },
  async "a picture"({ tab, same }) {
    await tab.say("draw a hill");
    const shown = () => tab.page.waitForFunction(() => document.querySelector("main img")?.naturalWidth === 160);
    await shown();
    await tab.settled();
    const place = async () => (await tab.page.locator("main img").getAttribute("src")).split("?")[0];
    const live = await place();
    await tab.page.reload();
    await shown();
    same(await place(), live);
  },
  async "a question"({ tab, same }) {
    await tab.say("book a table");
    await tab.page.getByLabel("Answer").fill("monday");
    await tab.press("Answer");
    await tab.shows("Done:");
    await tab.settled();
    same(await tab.text(), `user: book a table\nassistant: "booked for monday" | Done: "booked for monday"`);
  },
  async "reload in the middle of an answer"({ tab, same }) {
    await tab.say("a story");
    await tab.shows("there was a stone");
    await tab.page.reload();
    await tab.shows("there was a stone");
    tab.release();
    await tab.shows("the end.");
    await tab.settled();
    same(await tab.text(), `user: a story\nassistant: ${story}`);
    same(tab.posts.length, 1);
  },
  async "stop, and say something else at once"({ tab, same }) {
    await tab.say("a story");
    await tab.shows("there was a stone");
    await tab.press("Stop");
    await tab.page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" });
    await tab.say("hi");
    await tab.shows("You said: hi");
    await tab.settled();
    const lines = (await tab.text()).split("\n");
    same(lines.length, 4);
    same(story.startsWith(lines[1].slice("assistant: ".length).trim()), true);
    same(lines[1].includes("the end"), false);
  },
  async "two tabs"({ context, tab, same }) {
    await tab.say("hi");
    await tab.settled();
    const other = await Tab.open(context, tab.address());
    await other.shows("You said: hi");
    await tab.say("a story"); // shown in both as it comes
    await other.shows("there was a stone");
    same((await other.text()).includes("the end"), false);
    tab.release();
    await tab.shows("the end.");
    await other.shows("the end.");
    await tab.settled();
    await other.settled();
    same(await tab.text(), `user: hi\nassistant: You said: hi\nuser: a story\nassistant: ${story}`);
    same(await other.text(), await tab.text());
    same(other.posts.length, 0);
  },
  async "steering"({ tab, same }) {
    await tab.say("explore");
    await tab.shows("Looking around.");
    const joined = tab.page.waitForResponse((r) => r.url().endsWith("/start"));
    await tab.say("and be quick");
    await joined;
    tab.release();
    await tab.shows("You said: and be quick");
    await tab.settled();
    const want = `user: explore\nassistant: ${"Looking around. ".repeat(80)} | "Sunny in Oslo" | and be quick | You said: and be quick`;
    same(await tab.text(), want);
    await tab.page.reload();
    await tab.shows("You said:");
    await tab.settled();
    same(await tab.text(), want);
  },
  async "the session is deleted under an open stream"({ server, tab, same }) {
    await tab.say("a story");
    await tab.shows("there was a stone");
    const id = new URL(tab.address()).hash.slice(1);
    await fetch(`${server.url}/chat/${id}/abort`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    for (let status = 0; status !== 204; ) {
      ({ status } = await fetch(`${server.url}/sessions/${id}`, { method: "DELETE" }));
    }
    await tab.settled();
    same((await tab.text()).includes("the end"), false);
  },
  async "the process is killed in the middle of an answer, and another takes over"({ context, same }) {
    const first = await start("killed.db");
    const tab = await Tab.open(context, first.url);
    await tab.say("a story");
    await tab.shows("there was a stone");
    await first.kill();
    await tab.shows("Connecting again");
    same((await tab.page.getByRole("status").textContent()) === "ready", false); // never as if it were whole
    tab.release();
    const second = await start("killed.db", first.addr);
    await tab.shows("the end.");
    await tab.settled();
    same(await tab.text(), `user: a story\nassistant: ${story}`);
    same(tab.posts.length, 1);
    await second.kill("SIGTERM");
  },
};

const server = await start("chat.db");
const found = {};
await Promise.all(Object.entries(cases).map(async ([name, run]) => {
  found[name] = [];
  const same = (got, want) => { if (got !== want) found[name].push(`got ${got}\nwant ${want}`); };
  const context = await browser.newContext();
  let tab;
  try {
    tab = await Tab.open(context, server.url);
    tab.page.on("pageerror", (e) => found[name].push(String(e)));
    await run({ server, context, tab, same });
  } catch (e) {
    found[name].push(`${e}\n${await tab?.text().catch(() => "")}`);
  }
  await context.close();
}));
await browser.close();
await server.kill("SIGTERM");
console.log(JSON.stringify(found));
process.exit(0);
