// Drives the page in Chromium. Arguments: a server that is open, one that wants a token, the token, the path of Chromium.
// Prints a JSON object: what each case found to be wrong.
import { chromium } from "playwright-core";

const [open, closed, token, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const story = `Once upon a time ${"there was a stone on a hill, and ".repeat(12)}the end.`;
const found = {};

async function tab(context, url, wrong) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (err) => wrong.push("the page fails: " + err.message));
  page.on("console", (m) => /Content Security Policy/.test(m.text()) && wrong.push(m.text()));
  await page.goto(url);
  return page;
}

const say = async (page, text) => {
  await page.getByLabel("Message").fill(text);
  await page.getByLabel("Message").press("Enter");
};
// says waits until the last reply is a text, and the session is at rest.
const says = async (page, text) => {
  await page.waitForFunction((want) => {
    const all = document.querySelectorAll("#log article.text .text");
    return all.length && all[all.length - 1].textContent === want && !document.querySelector("#log .live") && document.getElementById("state").textContent === "";
  }, text);
};

async function test(name, run) {
  const wrong = (found[name] = []);
  const context = await browser.newContext();
  try {
    await run(context, wrong);
  } catch (err) {
    const texts = await Promise.all(context.pages().map((p) => p.locator("body").innerText().catch(() => "")));
    wrong.push(String(err.message) + "\n" + texts.join("\n---\n"));
  }
  await context.close();
}

await test("a turn, and the list of sessions", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  await say(page, "hello");
  await says(page, "You said hello.");
  await page.getByRole("navigation").getByRole("button", { name: "hello" }).waitFor();
  await say(page, "again");
  await says(page, "You said again.");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByText("Say something to begin.").waitFor();
  await page.getByRole("navigation").getByRole("button", { name: "hello" }).first().click();
  await says(page, "You said again.");
  if (await page.locator("#log article").count() !== 4) wrong.push("the conversation has " + await page.locator("#log article").count() + " messages");
});

await test("a reload in mid-answer, and two tabs", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  await say(page, "story");
  await page.getByText("Once upon a time there was").waitFor();
  const other = await tab(context, page.url(), wrong);
  await page.reload();
  await Promise.all([says(page, story), says(other, story)]);
  for (const p of [page, other]) {
    if (await p.locator("#log article.user").count() !== 1) wrong.push("what the user said is shown more than once");
  }
  await say(other, "hello");
  await Promise.all([says(page, "You said hello."), says(other, "You said hello.")]);
});

await test("approval, edit and denial", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  await say(page, "refund");
  await page.getByText("waiting for you").waitFor();
  await page.reload(); // the card is there again
  await page.getByRole("button", { name: "Approve" }).click();
  await says(page, 'refund came to "order 42 refunded"');
  await say(page, "refund");
  await page.getByLabel("Arguments").fill('{"order": 7}');
  await page.getByRole("button", { name: "Approve" }).click();
  await page.waitForFunction(() => /ran with .*7.*order 7 refunded"$/.test([...document.querySelectorAll("#log article.text .text")].at(-1).textContent));
  await say(page, "refund");
  await page.getByLabel("Arguments").fill("{");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("This is not valid JSON.").waitFor();
  await page.getByRole("button", { name: "Deny" }).click();
  await page.waitForFunction(() => /^refund failed with/.test([...document.querySelectorAll("#log article.text .text")].at(-1).textContent));
  await page.waitForFunction(() => !document.querySelector("#calls .call")); // no card is left
});

await test("a client tool", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  await say(page, "time");
  await page.getByRole("button", { name: "Run it here" }).click();
  await page.waitForFunction(() => /^get_time came to .*zone/.test([...document.querySelectorAll("#log article.text .text")].at(-1)?.textContent || ""));
  await say(page, "time");
  await page.getByLabel("Result as JSON").fill('"noon"');
  await page.getByRole("button", { name: "Send this" }).click();
  await says(page, 'get_time came to "noon"');
});

await test("a picture, live and after a reload, with a token", async (context, wrong) => {
  const page = await tab(context, closed, wrong);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Enter" }).click();
  await say(page, "draw");
  for (const when of ["live", "after a reload"]) {
    await says(page, "Here it is.");
    await page.waitForFunction(() => document.querySelector("#log .file img")?.naturalWidth === 3);
    await page.waitForFunction(() => document.querySelector("#log .file a[download]")?.href.startsWith("data:text/html;base64,"));
    const order = await page.locator("#log > *").evaluateAll((all) => all.map((el) => el.className).join(" "));
    if (order !== "user text file file") wrong.push(when + " the log shows " + order);
    await page.reload();
  }
});

await test("stop", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  await say(page, "story");
  await page.getByText("Once upon a time there was").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped.").waitFor();
  await say(page, "hello");
  await says(page, "You said hello.");
});

await test("a session that was rewound, then deleted and restored", async (context, wrong) => {
  const page = await tab(context, open, wrong);
  let snapshots = 0;
  page.on("request", (r) => { if (r.url().endsWith("/snapshot")) snapshots++; });
  await say(page, "hello");
  await says(page, "You said hello.");
  const session = open + "/sessions/" + new URL(page.url()).hash.slice(1);
  const { items: [{ id }] } = await (await page.request.get(session + "/checkpoints?limit=1")).json();
  await say(page, "again");
  await says(page, "You said again.");
  const shows = async (what) => { // another turn, so that every event before it was read
    snapshots = 0;
    await page.goto(at);
    await say(page, what);
    await says(page, "You said " + what + ".");
    if (snapshots > 2) wrong.push(`${what}: the page reads ${snapshots} snapshots`);
  };
  const at = page.url();
  for (const [verb, body] of [["/rewind", { checkpoint_id: id }], ["", undefined], ["/restore", undefined]]) {
    await page.goto("about:blank");
    const res = await page.request.fetch(session + verb, { method: verb ? "POST" : "DELETE", data: body });
    if (!res.ok()) wrong.push(`${verb}: ${res.status()} ${await res.text()}`);
    if (verb) await shows("something after " + verb.slice(1));
  }
});

await test("a page over plain http from another host", async (context, wrong) => {
  await context.addInitScript(() => { delete Crypto.prototype.randomUUID; });
  const page = await tab(context, open, wrong);
  await say(page, "hello");
  await says(page, "You said hello.");
});

await test("a token", async (context, wrong) => {
  const page = await tab(context, closed, wrong);
  await page.getByLabel("Token").fill("not the one that it is");
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByText("Does what it is asked for.").waitFor();
  await say(page, "hello");
  await says(page, "You said hello.");
  await page.reload();
  await says(page, "You said hello.");
  if (page.url().includes(token)) wrong.push("the address has the token");
});

await browser.close();
console.log(JSON.stringify(found));
