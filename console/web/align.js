// What two sessions have in common, and where they differ. It knows no page and imports nothing.

// most is how many items of each side are aligned; longer tails follow one another unaligned.
const most = 400;

// exactly identifies what an item says; roughly what it is, so that two items that differ may stand side by side.
const exactly = (i) => JSON.stringify([i.kind, i.text, i.tool, i.input, i.edited, i.output, i.state, i.name, i.code]);
const roughly = (i) => i.kind + " " + (i.tool || "");

// longest returns the pairs of a longest common subsequence of two lists, by a key of their items.
function longest(a, b, key) {
  const ka = a.map(key), kb = b.map(key), width = b.length + 1;
  const size = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      size[i * width + j] = ka[i] === kb[j] ? size[(i + 1) * width + j + 1] + 1 : Math.max(size[(i + 1) * width + j], size[i * width + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (ka[i] === kb[j]) pairs.push([i++, j++]);
    else if (size[(i + 1) * width + j] >= size[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

// align returns how many items two transcripts begin with in common, and the rows in which the others stand side by side:
// { left, right, differs }, of which one side may be missing.
export function align(left, right) {
  let same = 0;
  while (same < left.length && same < right.length && exactly(left[same]) === exactly(right[same])) same++;
  const a = left.slice(same), b = right.slice(same), rows = [];
  let i = 0, j = 0;
  const alone = (to, end) => {
    while (i < to) rows.push({ left: a[i++], differs: true });
    while (j < end) rows.push({ right: b[j++], differs: true });
  };
  for (const [m, n] of longest(a.slice(0, most), b.slice(0, most), roughly)) {
    alone(m, n);
    rows.push({ left: a[i], right: b[j], differs: exactly(a[i++]) !== exactly(b[j++]) });
  }
  alone(a.length, b.length);
  return { same, rows };
}

// words returns the parts of two texts by words: { text, is }, where is says "same", "del" or "ins".
export function words(before, after) {
  const split = (text) => text.match(/\s+|[^\s]+/g) || [];
  const a = split(before), b = split(after);
  if (a.length > 2000 || b.length > 2000) return [{ text: before, is: "del" }, { text: after, is: "ins" }];
  const parts = [];
  const add = (text, is) => {
    if (parts.at(-1)?.is === is) parts.at(-1).text += text;
    else parts.push({ text, is });
  };
  let i = 0, j = 0;
  const apart = (m, n) => {
    while (i < m) add(a[i++], "del");
    while (j < n) add(b[j++], "ins");
  };
  for (const [m, n] of longest(a, b, (w) => w)) {
    apart(m, n);
    add(a[i++], "same");
    j++;
  }
  apart(a.length, b.length);
  return parts;
}
