// Operators look after sessions in Chromium: memories, effects, files, scores, and verbs for many sessions. Arguments: the path
// of Chromium, a site that is open, a seeded site that wants a token. Prints a JSON object: what each case found to be wrong.
import { readFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { browser, found, sites, tab, test } from "./browser.mjs";

const [, site] = sites;
const cases = [];
const headers = (who) => ({ Authorization: "Bearer " + who });

// open opens a page as a person, whose name is the token, by a link that signs in.
const open = (context, wrong, path, who = "n.okt") => tab(context, site + "console/" + path + "#link=" + who, wrong);

cases.push(() => test("a link signs in, and one that does not says so", async (context, wrong) => {
  const page = await tab(context, site + "console/sessions#link=stale", wrong);
  await page.getByText("This link has been used or has expired.").waitFor();
  const other = await open(context, wrong, "sessions?status=failed");
  await other.getByRole("heading", { name: "Sessions" }).waitFor();
  if (/link=/.test(other.url()) || !/status=failed/.test(other.url())) wrong.push("the address is " + other.url());
  await other.goto(site + "console/ops#link=stale"); // who is signed in stays so
  await other.reload();
  await other.getByRole("heading", { name: "Operations" }).waitFor();
}));

cases.push(() => test("memories: search, history, correct, promote, forget", async (context, wrong) => {
  const page = await open(context, wrong, "memory?user=j.amsel");
  await page.getByText("1 memory is in quarantine").or(page.getByText("5 Elm Road")).first().waitFor();
  await page.getByRole("searchbox").fill("Elm");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=Elm/);
  await page.waitForFunction(() => document.querySelectorAll(".main .q").length === 1);
  await page.locator(".main .q").click();
  await page.getByRole("link", { name: "Lives at 3 Ash Lane." }).waitFor();
  await page.getByRole("button", { name: "Correct…" }).click();
  await page.getByRole("textbox", { name: "Text" }).fill("Lives at 7 Elm Road.");
  await page.getByRole("button", { name: "Correct", exact: true }).click();
  await page.getByRole("heading", { name: "Lives at 7 Elm Road." }).waitFor();
  if (await page.locator(".trail li").count() !== 3) wrong.push("the history has " + await page.locator(".trail li").count() + " versions");
  await page.goto(site + "console/memory?user=j.amsel&state=quarantined");
  await page.getByText("Is owed a voucher").click();
  await page.getByRole("button", { name: "Promote" }).click();
  await page.getByText("It is in use now.").waitFor();
  await page.getByText("No memory matches.").waitFor();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Forget…" }).click();
  await page.getByRole("button", { name: "Forget", exact: true }).click();
  await page.getByText("Forgotten.").waitFor();
  const left = await (await context.request.get(site + "memory/entries?agent=support&user_id=j.amsel", { headers: headers("n.okt") })).json();
  if (left.items.some((e) => e.id === "voucher") || !left.items.some((e) => e.text === "Lives at 7 Elm Road.")) wrong.push("left are " + JSON.stringify(left.items));
}));

cases.push(() => test("a user sees the own memories only, a reviewer the quarantine", async (context, wrong) => {
  const page = await open(context, wrong, "memory", "s.haddad");
  await page.getByText("Nothing is remembered.").waitFor();
  await page.goto(site + "console/memory?user=j.amsel");
  await page.getByText("The memories did not load.").waitFor();
}));

cases.push(() => test("an unknown effect is settled, with a note in the trail", async (context, wrong) => {
  const page = await open(context, wrong, "effects?user=j.amsel");
  await page.getByText("1 effect is unknown.").waitFor();
  await page.getByRole("button", { name: "It did not happen…" }).click();
  await page.getByRole("textbox", { name: "How you found out" }).fill("Asked the bank.");
  await page.getByRole("button", { name: "It did not happen", exact: true }).click();
  await page.getByText("No effect is unknown.").waitFor();
  await page.getByRole("combobox", { name: "State" }).selectOption("failed");
  await page.locator(".effect .st").getByText("Did not happen").waitFor();
  const list = await (await context.request.get(site + "effects?state=failed&limit=100", { headers: headers("n.okt") })).json();
  if (!list.items.some((c) => c.trail.some((t) => t.reviewer === "n.okt" && t.notes === "Asked the bank."))) wrong.push("the trail is " + JSON.stringify(list.items.map((c) => c.trail)));
}));

cases.push(() => test("an artifact is downloaded, and a turn is judged", async (context, wrong) => {
  const page = await open(context, wrong, "s/report?tab=files");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /\.csv$/ }).click()]);
  const text = await readFile(await file.path(), "utf8");
  if (text !== "order,price\n42,49.50\n") wrong.push("the file is " + JSON.stringify(text));
  await page.getByRole("link", { name: "Scores" }).first().click();
  await page.getByRole("combobox", { name: "Judge" }).selectOption("turn 1");
  await page.getByRole("textbox", { name: "Name of the score" }).fill("correct");
  await page.getByRole("textbox", { name: "Value" }).fill("0.75");
  await page.getByRole("button", { name: "Give" }).click();
  await page.getByRole("cell", { name: "0.75" }).waitFor();
  const { items } = await (await context.request.get(site + "sessions/report/scores", { headers: headers("n.okt") })).json();
  const last = items.at(-1);
  if (last.name !== "correct" || last.value !== 0.75 || !last.run_id || last.by !== "n.okt") wrong.push("the score is " + JSON.stringify(last));
}));

cases.push(() => test("many sessions are deleted: counted, stopped half-way, errors listed", async (context, wrong) => {
  const make = async (id) => {
    await context.request.post(site + "sessions", { headers: headers("m.oro"), data: { agent: "support", session_id: id } });
    await context.request.patch(site + "sessions/" + id, { headers: headers("m.oro"), data: { title: id, tags: ["many"] } });
  };
  for (let i = 0; i < 20; i++) await make("many-" + i);
  const page = await open(context, wrong, "sessions?tag=many");
  await page.getByRole("button", { name: "For all that match" }).click();
  await page.getByRole("menuitem", { name: "Delete all that match…" }).click();
  await page.getByRole("heading", { name: "Delete 20 sessions?" }).waitFor();
  // One begins to match, one cannot be deleted, and the server is busy once, and slow after ten: six at most are under way
  // when the deletion is stopped, and some are left.
  await make("late");
  let sent = 0, busy = 0, release;
  const held = new Promise((done) => { release = done; });
  await page.route(/\/sessions\/many-/, async (r) => {
    if (r.request().method() !== "DELETE") return r.continue();
    if (++sent === 3 && !busy++) return r.fulfill({ status: 429, contentType: "application/problem+json", body: "{}" });
    if (sent > 10) await held;
    if (r.request().url().endsWith("many-18")) return r.fulfill({ status: 409, contentType: "application/problem+json", body: '{"status": 409, "code": "conflict", "detail": "in use"}' });
    await r.continue();
  });
  await page.getByRole("button", { name: "Delete 20 sessions" }).click();
  await page.waitForFunction(() => /: ([5-9]|\d\d) of 20/.test(document.querySelector("dialog [role=status]")?.textContent || ""));
  await page.getByRole("button", { name: "Stop here" }).click();
  release();
  await page.getByText(/sessions deleted, \d+ left alone\. ?/).waitFor();
  await page.getByText("1 error.").waitFor();
  await page.getByRole("list", { name: "Errors" }).getByText("many-18: in use").waitFor();
  await page.getByRole("button", { name: "Close" }).first().click();
  await page.unroute(/\/sessions\/many-/);
  await page.getByRole("button", { name: "For all that match" }).click();
  await page.getByRole("menuitem", { name: "Delete all that match…" }).click();
  await page.getByRole("button", { name: /^Delete \d+ sessions$/ }).click();
  await page.getByText(/\d+ sessions? deleted\./).waitFor();
  const left = await (await context.request.get(site + "sessions?tag=many&limit=100", { headers: headers("n.okt") })).json();
  if (left.items.length) wrong.push("left are " + left.items.map((s) => s.id));
}));

cases.push(() => test("a list of 170 sessions, read to its end and back", async (context, wrong) => {
  const make = async (id) => {
    await context.request.post(site + "sessions", { headers: headers("m.oro"), data: { agent: "support", session_id: id } });
    await context.request.patch(site + "sessions/" + id, { headers: headers("m.oro"), data: { title: id, tags: ["listed"] } });
  };
  for (let i = 0; i < 170; i++) await make("listed-" + i);
  const page = await open(context, wrong, "sessions?tag=listed");
  const row = (name) => page.getByRole("link", { name, exact: true });
  const shown = () => page.locator(".srow:not(.hd)").count();
  const place = (name) => row(name).evaluate((el) => Math.round(el.getBoundingClientRect().top));
  await row("listed-169").waitFor();
  await page.getByRole("button", { name: "Load more" }).focus(); // as a keyboard does
  await page.keyboard.press("Enter");
  await page.getByText(/^1[05]0 sessions, more follow/).waitFor();
  await page.locator(".scroll").hover();
  for (let i = 0; i < 60 && !await row("listed-0").count(); i++) {
    await page.mouse.wheel(0, 700);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    if (await shown() > 130) wrong.push(await shown() + " rows are in the page");
  }
  await row("listed-0").scrollIntoViewIfNeeded();
  await page.getByText("170 sessions", { exact: true }).waitFor();
  if (await page.getByRole("button", { name: "Load more" }).count()) wrong.push("there is more to load behind the end");
  if (await row("listed-169").count()) wrong.push("the first rows are still in the page");

  const before = await place("listed-3");
  await make("newcomer");
  await context.request.patch(site + "sessions/listed-5", { headers: headers("m.oro"), data: { title: "renamed" } });
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange"))); // the next poll is due
  await row("renamed").waitFor();
  if (await place("listed-3") !== before) wrong.push("a change moves what is read from " + before + " to " + await place("listed-3"));
  await row("listed-3").click();
  await page.waitForURL(/listed-3/);
  await page.getByRole("heading", { name: "listed-3" }).waitFor();
  await page.goBack();
  await row("listed-3").waitFor();
  await page.getByText("170 sessions", { exact: true }).waitFor();
  const after = await place("listed-3");
  if (Math.abs(after - before) > 2) wrong.push("Back leads to a row at " + after + ", which was at " + before);
  await page.getByRole("button", { name: "new or changed" }).click();
  await row("newcomer").waitFor();
}));

cases.push(() => test("a list says that the server is not reached, and tries again", async (context, wrong) => {
  const page = await open(context, wrong, "sessions?status=failed");
  await page.locator(".srow:not(.hd)").first().waitFor();
  await page.route(/\/deep\/(sessions|session-counts|inbox)/, (r) => r.abort("connectionrefused"));
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange"))); // the next poll is due
  await page.getByText("Not connected since").waitFor();
  await page.getByText("Not connected", { exact: true }).waitFor();
  if (await page.locator(".srow:not(.hd)").count() === 0) wrong.push("the old list is gone");
  await page.unroute(/\/deep\/(sessions|session-counts|inbox)/);
  await page.getByRole("button", { name: "Try now" }).click();
  await page.getByText("Not connected since").waitFor({ state: "detached" });
}));

// A proxy that swallows what passes through it from now on leaves connections open, as a network that has gone away does.
cases.push(() => test("a silently dead connection is noticed, and replaced", async (context, wrong) => {
  let deaf = false;
  const to = new URL(site), sockets = [];
  const proxy = createServer((near) => {
    const far = connect(to.port, to.hostname);
    let lost = deaf;
    sockets.push(near, far);
    for (const s of [near, far]) s.unref(); // a case that fails must not keep the script alive
    near.on("data", (data) => { if (!(lost ||= deaf)) far.write(data); });
    far.on("data", (data) => { if (!(lost ||= deaf)) near.write(data); });
    for (const s of [near, far]) s.on("error", () => {}).on("close", () => { near.destroy(); far.destroy(); });
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  proxy.unref();
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (err) => wrong.push("the page fails: " + err.stack));
  await page.clock.install();
  await page.goto("http://127.0.0.1:" + proxy.address().port + to.pathname + "console/s/rich#link=n.okt");
  await page.getByText("A heading").waitFor();
  await page.getByText("Live ·").waitFor();
  deaf = true;
  await page.clock.fastForward(46_000);
  await page.clock.fastForward(3_000);
  await page.getByText("Not connected since").waitFor();
  await context.request.post(site + "start", { headers: headers("j.amsel"), data: { session_id: "rich", input: { text: "is it back" } } });
  deaf = false;
  for (let i = 0; i < 40 && !await page.getByText("You said is it back.").count(); i++) await page.clock.fastForward(5_000);
  await page.getByText("You said is it back.").waitFor();
  await page.getByText("Live ·").waitFor();
  if (await page.getByText("Not connected since").count()) wrong.push("it still says that it is not connected");
  await page.close();
  for (const s of sockets) s.destroy();
  proxy.close();
}));

// The cases have sessions of their own: two run at a time.
await Promise.all([0, 1].map(async () => { while (cases.length) await cases.shift()(); }));
await browser.close();
console.log(JSON.stringify(found));
