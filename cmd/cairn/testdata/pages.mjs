// Measures how long a page takes from the click on a link to the first row that is drawn, and how many elements it has then and
// after it was scrolled. Arguments: the path of Chromium, the site, the number of rounds. Prints a JSON object: by page, its
// figures by unit.
import { chromium } from "playwright-core";

const [executablePath, site, rounds] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
page.setDefaultTimeout(60_000);
await page.goto(site + "/console/ops");
await page.getByRole("heading", { name: "Operations" }).waitFor();

// visit goes from the page of operations to another one, and returns how many milliseconds pass until its row is drawn.
const visit = async (path, row) => {
  await page.evaluate((to) => {
    const link = document.createElement("a");
    link.href = new URL("ops", document.querySelector(".nav a").href).pathname.replace(/ops$/, to);
    link.id = "bench";
    document.body.append(link);
  }, path);
  const ms = await page.evaluate((want) => new Promise((done) => {
    const began = performance.now();
    const look = () => (document.querySelector(want) ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look));
    document.getElementById("bench").click();
    document.getElementById("bench").remove();
    look();
  }), row);
  return ms;
};

const out = {};
for (const [name, path, row, box] of [["sessions", "sessions", ".srow:not(.hd)", ".scroll"], ["session", "s/long", ".chapter .msg", ".convbox"]]) {
  const times = [];
  let most = 0;
  for (let i = 0; i < Number(rounds); i++) {
    times.push(await visit(path, row));
    if (i < 3) for (let k = 0; k < 20; k++) { // up and down, as far as it goes
      most = Math.max(most, await page.evaluate(() => document.querySelectorAll("main *").length));
      await page.evaluate(([at, part]) => { const el = document.querySelector(at); el.scrollTop = el.scrollHeight * part; }, [box, k % 2 ? k / 20 : 1 - k / 20]);
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
    const memory = await page.evaluate(() => performance.memory?.usedJSHeapSize || 0);
    out[name] = { "heap-MB": memory / 1e6 };
    await page.locator(".nav").getByRole("link", { name: "Operations" }).click();
    await page.getByRole("heading", { name: "Operations" }).waitFor();
  }
  times.sort((a, b) => a - b);
  Object.assign(out[name], { "median-ms": times[Math.floor(times.length / 2)], "worst-ms": times.at(-1), elements: most });
}
await browser.close();
console.log(JSON.stringify(out));
