// What the browser adds to a report: tables that sort, and the list of episodes.
// Strings of rows are not ours: they become text, never markup.
"use strict";

const NUMBER = /^[≈\s]*([+-]?\d[\d,]*(?:\.\d+)?)/;
const SHOWN = 100; // episodes that are added to the list at a time

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Numbers before words, what is missing always last.
function compare(a, b, down) {
  const missing = (text) => text === "" || text === "—";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const [x, y] = [NUMBER.exec(a), NUMBER.exec(b)];
  let order = x && y ? value(x) - value(y) : Boolean(y) - Boolean(x);
  if (!x && !y) order = a.localeCompare(b, "en", { numeric: true });
  return down ? -order : order;
}

function value(match) {
  return Number(match[1].replaceAll(",", ""));
}

// Give the names of columns a button each; `sort(column, direction)` gets 0 for the first order.
function sortable(heads, sort) {
  const turn = (column) => {
    const next = { none: "descending", descending: "ascending", ascending: "none" };
    const way = next[heads[column].getAttribute("aria-sort") ?? "none"];
    heads.forEach((head, place) => head.setAttribute("aria-sort", place === column ? way : "none"));
    sort(column, { none: 0, descending: -1, ascending: 1 }[way]);
  };
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", title: "Sort by this column" }, ...head.childNodes);
    button.addEventListener("click", () => turn(column));
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
  });
}

// Headings over rows are hidden while a table is sorted; rows about the others stay at the end.
function sortTable(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const moving = rows.filter((row) => !row.matches(".group, .tail"));
  sortable([...table.tHead.rows[table.tHead.rows.length - 1].cells], (column, direction) => {
    const text = (row) => row.cells[column].textContent.trim();
    const sorted = direction
      ? moving.toSorted((a, b) => compare(text(a), text(b), direction < 0))
      : moving;
    const rest = rows.filter((row) => row.matches(".tail, .tail-group"));
    body.replaceChildren(...(direction ? [...sorted, ...rest] : rows));
  });
}

function episodeList(place, data) {
  const names = ["method", "task", "N", "seed", "score", "messages / agent", "record"];
  const texts = data.rows.map(([method, task, n, seed, score, messages, record]) =>
    [method, task, String(n), seed, figure(score, 3), figure(messages, 1), record]);
  let order = texts;
  let count = SHOWN;
  const search = el("input", { type: "search", placeholder: "Search episodes", "aria-label": "Search episodes" });
  const status = el("span", { role: "status" });
  const more = el("button", { type: "button", id: "more" }, "Show more");
  const heads = names.map((name, column) => el("th", { scope: "col", class: column < 2 ? "text" : "" }, name));
  const body = el("tbody");
  const line = (row) => el("tr", {}, ...row.map((text, column) => {
    if (column === 0) return el("th", { scope: "row", class: "text" }, text);
    if (column < 6) return el("td", { class: column === 1 ? "text" : "" }, text);
    if (!text) return el("td", {}, "—");
    const address = `${data.viewer}#${new URLSearchParams({ run: text })}`;
    return el("td", {}, el("a", { href: address, target: "_blank", rel: "noreferrer" }, "open"));
  }));
  const fill = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = order.filter((row) => {
      const text = row.join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    body.replaceChildren(...found.slice(0, count).map(line));
    status.textContent = `${found.length.toLocaleString("en")} of ${data.total.toLocaleString("en")} episodes`;
    more.hidden = found.length <= count;
  };
  sortable(heads, (column, direction) => {
    order = direction ? texts.toSorted((a, b) => compare(a[column], b[column], direction < 0)) : texts;
    fill();
  });
  search.addEventListener("input", () => { count = SHOWN; fill(); });
  more.addEventListener("click", () => { count += SHOWN; fill(); });
  place.replaceChildren(
    el("div", { class: "bar" }, search, status),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body)), more);
  fill();
}

function figure(number, digits) {
  return number === null ? "—" : number.toFixed(digits);
}

document.querySelectorAll("table").forEach(sortTable);
const data = document.getElementById("episodes");
if (data) episodeList(document.getElementById("episode-list"), JSON.parse(data.textContent));
document.body.dataset.ready = "yes";
