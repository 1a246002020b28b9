// People use the console in Chromium. Arguments: the path of Chromium, a site that is open, a site that wants a token. Prints a
// JSON object: what each case found to be wrong.
import { begin, browser, found, idOf, say, says, sites, tab, test } from "./browser.mjs";

const [open, closed] = sites;
const story = `Once upon a time ${"there was a stone on a hill, and ".repeat(12)}the end.`;

await test("a turn, and the list of sessions", async (context, wrong) => {
  const page = await begin(context, wrong, "hello there");
  await says(page, "You said hello there.");
  await say(page, "again");
  await says(page, "You said again.");
  await page.getByText("Done at").waitFor();
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Sessions" }).click();
  await page.getByRole("link", { name: "hello there" }).first().click();
  await says(page, "You said again.");
  if (await page.locator(".msg.u").count() !== 2) wrong.push("the conversation has " + await page.locator(".msg.u").count() + " messages of the user");
  await page.goBack();
  await page.getByRole("searchbox").fill("hello");
  await page.waitForURL(/q=hello/);
  await page.getByRole("link", { name: "hello there" }).first().waitFor();
  await page.getByRole("searchbox").fill("nothing like this");
  await page.getByText("No session matches.").waitFor();
});

await test("an answer word by word, a reload in its middle, and two tabs", async (context, wrong) => {
  const page = await begin(context, wrong, "story");
  await page.waitForFunction(() => /^Once upon a time there was/.test(document.querySelector(".msg.a.live")?.textContent || ""));
  const first = (await page.locator(".msg.a").textContent()).length;
  await page.waitForFunction((n) => document.querySelector(".msg.a").textContent.length > n + 40, first);
  const other = await tab(context, page.url(), wrong);
  await page.reload();
  await Promise.all([says(page, story), says(other, story)]);
  for (const p of [page, other]) if (await p.locator(".msg.u").count() !== 1) wrong.push("what the user said is shown more than once");
  await say(other, "hello");
  await Promise.all([says(page, "You said hello."), says(other, "You said hello.")]);
});

await test("an approval in the inbox with an edited number, by keys only", async (context, wrong) => {
  const page = await begin(context, wrong, "refund please");
  await page.getByText("Waits for an approval by").waitFor();
  await page.locator("body").press("r");
  await page.waitForURL(/inbox\?call=/);
  const amount = page.getByRole("textbox", { name: "Amount" });
  await amount.waitFor();
  if (await amount.inputValue() !== "1.5") wrong.push("the amount is " + await amount.inputValue());
  await amount.focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("99");
  await page.getByText("Must be above 0 and at most 49.5.").first().waitFor();
  if (await page.getByRole("button", { name: /^Approve/ }).isEnabled()) wrong.push("a number above the maximum can be approved");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("12.50");
  await page.getByRole("button", { name: "Approve with 1 change" }).waitFor();
  await page.getByRole("heading", { name: /May support run refund/ }).focus();
  let sent = "";
  page.on("request", (r) => { if (r.url().endsWith("submit-tool-result")) sent = r.postData(); });
  await page.keyboard.press("a");
  await page.keyboard.press("Enter");
  await page.getByText("Approved refund.").waitFor();
  if (!/"amount":12\.50[,}]/.test(sent)) wrong.push("the page sends " + sent);
  await page.goBack();
  await page.waitForFunction(() => /refund came to .*12\.50?/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
});

await test("an approval in the conversation, a denial, and JSON that is none", async (context, wrong) => {
  const page = await begin(context, wrong, "refund one");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  await page.reload(); // the card is there again
  await page.getByRole("button", { name: "Approve" }).click();
  await page.waitForFunction(() => /^refund came to .*"order": ?7/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
  await say(page, "refund two");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("Why not?").fill("too late");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.waitForFunction(() => /^refund came to .*too late/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
  await say(page, "time");
  await page.getByRole("button", { name: "Give the result" }).click();
  await page.getByLabel("Value").fill("{");
  await page.getByText("This is not valid JSON.").waitFor();
  await page.getByLabel("Value").fill('"noon"');
  await page.getByRole("button", { name: "Send the answer" }).click();
  await says(page, 'get_time came to "noon"');
  await say(page, "time");
  await page.getByRole("button", { name: "Run it here" }).click();
  await page.waitForFunction(() => /^get_time came to .*zone/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
  await page.waitForFunction(() => !document.querySelector(".ask")); // no card is left
});

await test("a decision that another reviewer made first", async (context, wrong) => {
  const page = await begin(context, wrong, "refund three");
  await page.getByText("Waits for an approval by").waitFor();
  const id = idOf(page);
  await page.locator("body").press("r");
  await page.getByRole("textbox", { name: "Amount" }).fill("2.25");
  const { items: [call] } = await (await page.request.get(open + "inbox?session_id=" + id)).json();
  const res = await page.request.post(open + "submit-tool-result", { data: { session_id: id, call_id: call.id, type: "approval-response", approval_id: call.approval_id, approved: false, reason: "no", reviewer: "k.ilves" } });
  if (!res.ok()) wrong.push(await res.text());
  await page.getByRole("button", { name: "Approve with 1 change" }).click();
  await page.getByText(/k\.ilves denied it .* before you/).waitFor();
});

await test("a picture, live and after a reload, with a token", async (context, wrong) => {
  const page = await tab(context, closed + "console/new?agent=support", wrong);
  await page.getByLabel("Token").fill("not the one that it is");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The server does not know this token.").waitFor();
  await page.getByLabel("Token").fill("j.amsel");
  await page.getByRole("button", { name: "Sign in" }).click();
  await say(page, "draw");
  await page.waitForURL(/\/s\//);
  for (const when of ["live", "after a reload"]) {
    await says(page, "Here it is.");
    await page.waitForFunction(() => document.querySelector(".file img")?.naturalWidth === 3);
    await page.waitForFunction(() => document.querySelector(".file a[download]")?.href.startsWith("data:text/html;base64,"));
    const order = await page.locator(".chapter > .msg, .chapter > .file").evaluateAll((all) => all.map((el) => el.className).join(" "));
    if (order !== "msg u msg a file file") wrong.push(when + " the conversation shows " + order);
    await page.reload();
  }
  if (page.url().includes("token")) wrong.push("the address has the token");
});

await test("stop, edit a message, its versions, and another answer", async (context, wrong) => {
  const page = await begin(context, wrong, "endless");
  await page.getByText("And then there was").first().waitFor();
  await page.getByRole("button", { name: "Stop" }).first().click();
  await page.getByText("Stopped at").waitFor();
  await say(page, "first words");
  await says(page, "You said first words.");
  await page.locator(".msg.u").last().hover();
  await page.getByRole("button", { name: "Edit" }).last().click();
  await page.getByLabel("Edit the message").fill("better words");
  await page.getByRole("button", { name: "Send again" }).click();
  await says(page, "You said better words.");
  await page.getByText("2 of 2").waitFor();
  await page.getByRole("button", { name: "Previous version" }).click();
  await says(page, "You said first words.");
  await page.getByText("This is version 1 of 2.").waitFor();
  await page.getByText("1 of 2", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Next version" }).click();
  await says(page, "You said better words.");
  await page.getByRole("button", { name: "Edit" }).last().click();
  await page.getByLabel("Edit the message").fill("best words");
  await page.getByRole("button", { name: "Send again" }).click();
  await says(page, "You said best words.");
  const edited = idOf(page);
  for (const [version, text] of [["2 of 3", "You said better words."], ["1 of 3", "You said first words."]]) {
    await page.getByRole("button", { name: "Previous version" }).click();
    await says(page, text);
    await page.getByText(version, { exact: true }).waitFor();
  }
  if (await page.getByRole("button", { name: "Previous version" }).isEnabled()) wrong.push("there is a version before the first");
  if (await page.getByRole("button", { name: "Edit" }).count()) wrong.push("an earlier version can be edited");
  await page.getByRole("button", { name: "Continue from here" }).click();
  await page.waitForFunction((was) => !location.pathname.endsWith(was), edited);
  await says(page, "You said first words.");
  await say(page, "and more");
  await says(page, "You said and more.");
  await page.goto(open + "console/s/" + edited);
  await says(page, "You said best words.");
});

await test("a session that was rewound, then deleted and restored, in another tab", async (context, wrong) => {
  const page = await begin(context, wrong, "hello");
  await says(page, "You said hello.");
  const session = open + "sessions/" + idOf(page);
  const { items: [{ id }] } = await (await page.request.get(session + "/checkpoints?limit=1")).json();
  await say(page, "again");
  await says(page, "You said again.");
  let snapshots = 0;
  page.on("request", (r) => { if (r.url().endsWith("/snapshot")) snapshots++; });
  const call = async (verb, body) => {
    const res = await page.request.fetch(session + verb, { method: verb ? "POST" : "DELETE", data: body });
    if (!res.ok()) wrong.push(`${verb}: ${res.status()} ${await res.text()}`);
  };
  await call("/rewind", { checkpoint_id: id });
  await page.waitForFunction(() => ![...document.querySelectorAll(".msg.a")].some((m) => m.textContent.includes("You said again.")));
  await say(page, "something after");
  await says(page, "You said something after.");
  if (snapshots > 2) wrong.push(`the page reads ${snapshots} snapshots after a rewind`);
  await call("", undefined);
  await page.getByText("It was deleted.").waitFor();
  await page.getByRole("button", { name: "Restore it" }).click();
  await says(page, "You said something after.");
  await page.goto("about:blank");
  snapshots = 0;
  await page.goto(open + "console/s/" + idOf({ url: () => session.replace("sessions", "console/s") }));
  await say(page, "and more");
  await says(page, "You said and more.");
  if (snapshots > 2) wrong.push(`the page reads ${snapshots} snapshots of a restored session`);
});

await test("a page over plain http from another host, and an end user's chat", async (context, wrong) => {
  await context.addInitScript(() => {
    delete Crypto.prototype.randomUUID;
    delete Navigator.prototype.clipboard;
    Object.defineProperty(window, "isSecureContext", { value: false });
  });
  const page = await tab(context, open + "console/chat?agent=support", wrong);
  await say(page, "refund me");
  await page.getByRole("button", { name: "Yes" }).click();
  await page.waitForFunction(() => /^refund came to/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
  await page.locator(".msg.a").last().hover();
  await page.getByRole("button", { name: "Copy" }).last().click();
  await page.getByText("Copied").waitFor();
  if (/\$0\.|\bstep\b|Turn 1/.test(await page.locator("body").innerText())) wrong.push("the chat has words of the console");
  await page.getByRole("link", { name: "New conversation" }).click();
  await page.getByText("How can I help?").waitFor();
});

await test("a fork, compared", async (context, wrong) => {
  const page = await begin(context, wrong, "gift some flowers");
  await page.locator(".card").filter({ hasText: "send_gift" }).getByText("Done").waitFor();
  const id = idOf(page);
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.getByLabel("Model").selectOption({ label: "small" });
  await page.getByLabel("Instructions").fill("Be short.");
  await page.getByRole("button", { name: "Fork", exact: true }).last().click();
  await page.waitForURL(new RegExp("/s/" + id + "/compare/"));
  await page.locator(".verdict").getByText("Waiting").waitFor();
  const facts = await page.locator(".verdict").innerText();
  if (!/small/.test(facts) || !/Waits for/.test(facts)) wrong.push("the facts are " + facts);
  if (!/The same up to here: 1 item/.test(await page.locator(".same").innerText())) wrong.push("what is the same: " + await page.locator(".same").innerText());
  await page.locator(".prompts ins").getByText("Be short.").waitFor();
  await page.keyboard.press("n");
  if (!await page.evaluate(() => document.activeElement?.classList.contains("differs"))) wrong.push("N leads to no difference");
  await page.locator(".verdict").getByRole("link", { name: "Fork" }).click();
  await page.getByRole("button", { name: "Review" }).waitFor();
  await page.getByRole("link", { name: "Compare with the original" }).click();
  await page.getByRole("button", { name: "Next difference" }).waitFor();
  await page.goto(open + "console/s/" + id);
  await page.getByRole("button", { name: "Fork turn 1" }).click();
  await page.getByLabel("Another answer").selectOption({ index: 1 });
  await page.getByLabel("Result, as JSON or text").fill('"nobody was at home"');
  await page.getByRole("button", { name: "Fork", exact: true }).last().click();
  await page.waitForURL(/compare/);
  await page.locator(".verdict").getByText("Done").nth(1).waitFor();
  if (await page.locator(".pair.differs").count() === 0) wrong.push("another result makes no difference");
});

await test("forks with another answer: a question, a tool of the page, an approval with other arguments", async (context, wrong) => {
  const forked = async (page) => {
    await page.getByRole("button", { name: "Fork", exact: true }).last().click();
    await page.waitForURL(/compare/);
    await page.locator(".verdict").getByRole("link", { name: "Fork" }).click();
  };
  const page = await begin(context, wrong, "Which colour do the new cups have?");
  await page.getByRole("textbox", { name: "Answer" }).or(page.getByRole("textbox", { name: "Colour" })).fill("sand");
  await page.getByRole("button", { name: "Send the answer" }).click();
  await page.getByText("Done at").waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.getByLabel("Another answer").selectOption({ index: 1 });
  await page.getByRole("dialog").getByRole("textbox", { name: "Colour" }).fill("clay");
  await forked(page);
  await page.waitForFunction(() => /clay/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));

  await page.goto(open + "console/new?agent=support");
  await say(page, "time please");
  await page.getByRole("button", { name: "Give the result" }).click();
  await page.getByRole("textbox", { name: "Value" }).fill('"noon"');
  await page.getByRole("button", { name: "Send the answer" }).click();
  await page.getByText("Done at").waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.getByLabel("Another answer").selectOption({ index: 1 });
  await page.getByRole("dialog").getByRole("textbox", { name: "Value" }).fill('"midnight"');
  await forked(page);
  await page.waitForFunction(() => /midnight/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));

  await page.goto(open + "console/new?agent=support");
  await say(page, "refund it");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Done at").waitFor();
  await page.locator("h1").click();
  await page.keyboard.press("b");
  await page.getByLabel("Another answer").selectOption({ index: 1 });
  await page.getByRole("dialog").getByRole("textbox", { name: "Amount" }).fill("12.50");
  let sent = "";
  page.on("request", (r) => { if (r.url().endsWith("/fork")) sent = r.postData(); });
  await forked(page);
  await page.waitForFunction(() => /12.50?/.test([...document.querySelectorAll(".msg.a")].at(-1)?.textContent || ""));
  if (!/"amount":12\.50[,}]/.test(sent)) wrong.push("sent is " + sent);
});

await test("keys only: palette, list and help", async (context, wrong) => {
  const page = await begin(context, wrong, "a session for keys");
  await says(page, "You said a session for keys.");
  await page.locator("h1").click();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("keys");
  await page.getByRole("option", { name: "a session for keys", exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL(/\/sessions$/);
  await page.locator(".srow:not(.hd)").first().waitFor();
  await page.keyboard.press("j");
  await page.locator(".srow.cur").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/s\//);
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  if (!await page.evaluate(() => document.activeElement && document.activeElement !== document.body)) wrong.push("Tab leads nowhere");
});

await browser.close();
console.log(JSON.stringify(found));
