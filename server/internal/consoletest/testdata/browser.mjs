// What the scripts that use the console in Chromium share: the browser, its tabs and the cases. Each script has the path of
// Chromium, two sites and the beginning of the names of its cases as arguments.
import { chromium } from "playwright-core";

const [executablePath, first, second, only] = process.argv.slice(2);
export const sites = [first, second];

export const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
export const found = {}; // what each case found to be wrong

export async function tab(context, url, wrong) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (err) => wrong.push("the page fails: " + err.stack));
  page.on("console", (m) => /Content Security Policy/.test(m.text()) && wrong.push(m.text()));
  page.on("request", (r) => { if (new URL(r.url()).host !== new URL(first).host && new URL(r.url()).host !== new URL(second).host && !r.url().startsWith("data:")) wrong.push("a request to " + r.url()); });
  await page.goto(url);
  return page;
}

export async function test(name, run) {
  if (only && !name.startsWith(only)) return;
  const wrong = (found[name] = []);
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  try {
    await run(context, wrong);
  } catch (err) {
    const texts = await Promise.all(context.pages().map((p) => p.locator("body").innerText().catch(() => "")));
    wrong.push(String(err.stack).slice(0, 900) + "\n" + texts.join("\n---\n").slice(0, 1500));
  }
  await context.close();
}

export const say = async (page, text) => {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("textbox", { name: "Message" }).press("Enter");
};

// says waits until the last answer is a text, and nothing is under way.
export const says = (page, text) => page.waitForFunction((want) => {
  const all = document.querySelectorAll(".msg.a"), last = all[all.length - 1];
  return last && last.textContent.trim() === want && !document.querySelector(".msg.live") && document.querySelector("[role=log]").getAttribute("aria-busy") === "false";
}, text);

export const begin = async (context, wrong, what, site = first) => {
  const page = await tab(context, site + "console/new?agent=support", wrong);
  await say(page, what);
  await page.waitForURL(/\/s\//);
  return page;
};

export const idOf = (page) => decodeURIComponent(new URL(page.url()).pathname.split("/").pop());
