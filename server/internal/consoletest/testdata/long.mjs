// People read a conversation of 1,000 turns in Chromium. Arguments: the path of Chromium, an open site, the same. Prints a JSON
// object: what each case found to be wrong.
import { browser, found, say, sites, tab, test } from "./browser.mjs";

const [site] = sites;
const open = async (context, wrong, hash = "", session = "long") => {
  const page = await tab(context, site + "console/s/" + session + hash, wrong);
  page.on("request", (r) => { if (/\/snapshot$/.test(r.url())) wrong.push("the whole transcript is read"); });
  await page.locator(".chapter").first().waitFor();
  return page;
};

// visible waits until a turn is on the screen, and returns where it begins below the top of the conversation.
const visible = (page, turn) => page.waitForFunction((name) => {
  const box = document.querySelector(".convbox"), row = document.querySelector('.chapter[aria-label="' + name + '"]');
  if (!row) return false;
  const a = box.getBoundingClientRect(), b = row.getBoundingClientRect();
  return b.bottom > a.top && b.top < a.bottom && { top: b.top - a.top };
}, "Turn " + turn).then((h) => h.jsonValue());

const top = (page) => page.evaluate(() => {
  const box = document.querySelector(".convbox").getBoundingClientRect();
  const row = [...document.querySelectorAll(".chapter")].find((el) => el.getBoundingClientRect().bottom > box.top + 50);
  return { name: row.getAttribute("aria-label"), top: Math.round(row.getBoundingClientRect().top - box.top) };
});
const size = (page) => page.evaluate(() => document.querySelectorAll(".convbox *").length);
const still = (page) => page.evaluate(() => new Promise((done) => { // until the box has not moved for some frames
  const box = document.querySelector(".convbox");
  let last = -1, same = 0;
  const look = () => {
    same = box.scrollTop === last ? same + 1 : 0;
    last = box.scrollTop;
    if (same > 5) done();
    else requestAnimationFrame(look);
  };
  look();
}));

await test("the end, the beginning, and a page at a time", async (context, wrong) => {
  const page = await open(context, wrong);
  await visible(page, 1000);
  const row = page.locator(".chapter").last();
  if (await row.getAttribute("aria-posinset") !== "1000" || await row.getAttribute("aria-setsize") !== "1000") wrong.push("the last turn does not say where it is");
  const most = async (when) => { if (await size(page) > 2500) wrong.push(when + " there are " + await size(page) + " elements"); };
  await most("at the end");
  await page.locator(".convbox").focus();
  await page.keyboard.press("Home");
  await visible(page, 1);
  await still(page);
  if ((await top(page)).name !== "Turn 1") wrong.push("Home leads to " + JSON.stringify(await top(page)));
  await most("at the beginning");
  for (let i = 0; i < 3; i++) {
    const before = await top(page);
    await page.keyboard.press("PageDown");
    await page.waitForFunction((name) => document.querySelector('.chapter[aria-label="' + name + '"]')?.getBoundingClientRect().bottom < innerHeight, before.name);
    await still(page);
  }
  await most("after three pages");
  await page.keyboard.press("End");
  await visible(page, 1000);
});

await test("what is read stays where it is, whatever is measured above it", async (context, wrong) => {
  const page = await open(context, wrong, "#turn-500");
  const at = await visible(page, 500);
  if (at.top < -1 || at.top > 60) wrong.push("the turn begins at " + at.top);
  if (!await page.evaluate(() => document.activeElement?.id === "turn-500")) wrong.push("the turn has no focus");
  await page.locator(".convbox").hover();
  await still(page);
  let before = await top(page);
  for (let i = 0; i < 12; i++) { // into rows that were never measured: a step moves by what was asked for
    await page.mouse.wheel(0, -100);
    await still(page);
    const y = await page.evaluate((name) => {
      const row = document.querySelector('.chapter[aria-label="' + name + '"]'), box = document.querySelector(".convbox");
      return row && Math.round(row.getBoundingClientRect().top - box.getBoundingClientRect().top);
    }, before.name);
    if (y === null || Math.abs(y - before.top - 100) > 2) wrong.push("a step of 100 moves " + before.name + " from " + before.top + " to " + y);
    before = await top(page);
  }
  await page.goto(site + "console/s/long#msaid-42");
  await visible(page, 42);
  if (!await page.evaluate(() => document.activeElement?.id === "msaid-42")) wrong.push("the message has no focus");
});

await test("an answer at the end, followed and left", async (context, wrong) => {
  const page = await open(context, wrong);
  await visible(page, 1000);
  await say(page, "endless");
  await page.waitForFunction(() => /a stone on a hill/.test(document.querySelector(".msg.a.live")?.textContent || ""));
  await visible(page, 1001);
  await page.locator(".convbox").hover();
  await page.mouse.wheel(0, -700);
  await still(page);
  const grown = async () => {
    const words = (await page.locator(".msg.a").last().textContent()).length;
    await page.waitForFunction((n) => [...document.querySelectorAll(".msg.a")].at(-1).textContent.length > n + 60, words);
  };
  const end = () => page.waitForFunction(() => { const b = document.querySelector(".convbox"); return b.scrollHeight - b.scrollTop - b.clientHeight < 5; });
  const before = await top(page);
  await grown();
  const after = await top(page);
  if (before.name !== after.name || Math.abs(before.top - after.top) > 1) wrong.push("the reader is moved from " + JSON.stringify(before) + " to " + JSON.stringify(after));
  await page.getByRole("button", { name: "New words" }).click();
  await end();
  await grown();
  await end();
  await page.getByRole("button", { name: "Stop" }).first().click();
  await page.getByText("Stopped at").waitFor();
});

await test("Ctrl F finds what is far away", async (context, wrong) => {
  const page = await open(context, wrong);
  await still(page);
  await page.keyboard.press("Control+f");
  await page.getByRole("searchbox", { name: "Search the conversation" }).fill("order 234 is");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  await visible(page, 234);
  if (await page.evaluate(() => CSS.highlights.get("found")?.size) !== 1) wrong.push("the place is not marked");
  await page.getByRole("searchbox", { name: "Search the conversation" }).fill("order 77");
  await page.getByText("1 of 22").waitFor(); // 77, and 770 to 779, in questions and answers
  await page.keyboard.press("Enter");
  await page.getByText("2 of 22").waitFor();
  await page.keyboard.press("Shift+Enter");
  await page.getByText("1 of 22").waitFor();
  await visible(page, 77);
  await page.keyboard.press("Escape");
  if (await page.locator(".findbar").count() || !await page.evaluate(() => document.activeElement?.classList.contains("convbox"))) wrong.push("Escape does not close the search");
});

await test("a turn that begins far away does not move the reader", async (context, wrong) => {
  const page = await open(context, wrong, "#turn-300");
  await visible(page, 300);
  await still(page);
  const before = await top(page), length = await page.evaluate(() => Number(document.querySelector(".chapter").getAttribute("aria-setsize")));
  await context.request.post(site + "start", { data: { session_id: "long", input: { text: "hello from afar" } } });
  await page.waitForFunction((n) => Number(document.querySelector(".chapter").getAttribute("aria-setsize")) > n, length);
  await page.getByText("Done at").waitFor();
  const after = await top(page);
  if (before.name !== after.name || Math.abs(before.top - after.top) > 1) wrong.push("the reader is moved from " + JSON.stringify(before) + " to " + JSON.stringify(after));
  await page.locator(".convbox").focus();
  await page.keyboard.press("End");
  await page.getByText("You said hello from afar.").waitFor();
});

await test("a turn of 300 calls", async (context, wrong) => {
  const page = await open(context, wrong, "", "deep");
  await page.getByText("It is nowhere.").waitFor();
  await page.locator(".convbox").focus();
  await page.keyboard.press("Home");
  await page.locator(".msg.u").getByText("Look everywhere.").waitFor();
  if (await page.locator("h2.turn").count() !== 1) wrong.push("the turn has " + await page.locator("h2.turn").count() + " headings");
  if (await page.locator(".card").filter({ hasNotText: "Done" }).count()) wrong.push("a call has no result");
  if (await size(page) > 3000) wrong.push("there are " + await size(page) + " elements");
  await page.keyboard.press("Control+f");
  await page.getByRole("searchbox", { name: "Search the conversation" }).fill("box 123");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  await page.locator(".card").filter({ hasText: "box 123" }).waitFor();
  await page.evaluate(() => { location.hash = "#muses-call-30"; });
  await page.locator(".card").filter({ hasText: "box 30" }).first().waitFor();
});

await test("a message that is edited stays, wherever the reader is", async (context, wrong) => {
  const page = await open(context, wrong, "#turn-700");
  await visible(page, 700);
  await page.locator('.chapter[aria-label="Turn 700"]').getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Edit the message" }).fill("And order 701?");
  await page.locator(".convbox").focus();
  await page.keyboard.press("Home");
  await visible(page, 1);
  await page.evaluate(() => { location.hash = "#turn-699"; });
  await visible(page, 700);
  if (await page.getByRole("textbox", { name: "Edit the message" }).inputValue() !== "And order 701?") wrong.push("the edited text is lost");
});

await browser.close();
console.log(JSON.stringify(found));
