// The list of runs: search, sort, filter; one is opened, two are compared.
import { el, figure, pause } from "./dom.js";
import { source } from "./source.js";

const COLUMNS = [["task", "Task"], ["law", "Law"], ["n", "N"], ["seed", "Seed"], ["rounds", "Rounds"], ["score", "Score"]];
const NUMBERS = new Set(["n", "rounds", "score"]);
const SHOWN = 300; // rows of the table; a search narrows the rest
const LOOKS = 2; // seconds after which new records are looked for

export function address(runs, more = {}) {
  const [run, other] = runs;
  return `#${new URLSearchParams({ run, ...(other ? { with: other } : {}), ...more })}`;
}

export class Library {
  constructor() {
    Object.assign(this, { rows: [], live: [], total: 0, by: "task", down: false, chosen: [], open: true });
    const changed = () => this.fill();
    this.search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search runs", oninput: changed });
    this.filters = ["task", "law", "n"].map((name) =>
      el("select", { "aria-label": `Filter by ${name}`, name, onchange: changed }, el("option", { value: "" }, `every ${name}`)));
    this.least = el("input", { type: "number", step: "0.05", placeholder: "score at least", "aria-label": "Score at least", oninput: changed });
    this.both = el("button", { type: "button", disabled: true, onclick: () => { location.hash = address(this.chosen); } }, "Compare two");
    this.count = el("p", { class: "soft", role: "status" });
    this.heads = COLUMNS.map(([name, title]) => el("th", { scope: "col", class: NUMBERS.has(name) ? "number" : "" },
      el("button", { type: "button", onclick: () => this.sort(name) }, title)));
    this.body = el("tbody");
    this.root = el("div", {}, el("h1", {}, "Runs"),
      el("div", { class: "bar" }, this.search, this.filters, this.least, this.both), this.count,
      el("div", { class: "scroll" }, el("table", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Compare"), this.heads)), this.body)));
  }

  // Read the first page of the list; the rest and what is new come while the page is seen.
  async load() {
    await this.next();
    if (source.grows) this.follow();
  }

  async next() {
    const { runs, total, live } = await source.runs(this.rows.length);
    const same = !runs.length && String(live.map((row) => row.run)) === String(this.live.map((row) => row.run));
    this.rows.push(...runs);
    this.live = live;
    this.total = runs.length ? total : this.rows.length;
    if (same && this.rows.length) return;
    this.offer();
    this.fill();
  }

  async follow() {
    for (;;) {
      if (this.rows.length >= this.total) await pause(LOOKS);
      if (!this.open) return;
      if (document.hidden) {
        await pause(LOOKS);
        continue;
      }
      try {
        await this.next();
      } catch {
        this.count.textContent += " · the viewer has ended";
        return;
      }
    }
  }

  stop() {
    this.open = false;
  }

  sort(name) {
    this.down = this.by === name && !this.down;
    this.by = name;
    this.fill();
  }

  offer() {
    for (const filter of this.filters) {
      const known = new Set([...filter.options].map((option) => option.value));
      for (const row of this.all()) {
        const value = String(row[filter.name] ?? "");
        if (value && !known.has(value)) {
          known.add(value);
          filter.append(el("option", { value }, value));
        }
      }
    }
  }

  // Those being played, then the others; one that is played again counts once.
  all() {
    const played = new Set(this.live.map((row) => row.run));
    return [...this.live, ...this.rows.filter((row) => !played.has(row.run))];
  }

  found() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const least = this.least.value === "" ? null : Number(this.least.value);
    const rows = this.all().filter((row) => {
      const text = Object.values(row).join(" ").toLowerCase();
      return words.every((word) => text.includes(word))
        && this.filters.every((filter) => !filter.value || String(row[filter.name]) === filter.value)
        && (least === null || (row.score ?? -Infinity) >= least);
    });
    const order = (a, b) => {
      const [x, y] = [a[this.by] ?? "", b[this.by] ?? ""];
      return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    };
    rows.sort((a, b) => Boolean(b.live) - Boolean(a.live) || (this.down ? order(b, a) : order(a, b)));
    return rows;
  }

  fill() {
    const rows = this.found();
    const shown = rows.slice(0, SHOWN);
    this.count.textContent = `${rows.length} of ${this.all().length} runs`
      + (this.rows.length < this.total ? `, ${this.total - this.rows.length} still to be read` : "")
      + (this.live.length ? `, ${this.live.length} being played` : "")
      + (rows.some((row) => row.shock) ? "; ⚡ marks late counterevidence" : "")
      + (rows.length > SHOWN ? `; the first ${SHOWN} are listed` : "");
    this.heads.forEach((head, place) =>
      head.setAttribute("aria-sort", COLUMNS[place][0] !== this.by ? "none" : this.down ? "descending" : "ascending"));
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
  }

  row(row) {
    if (row.error) {
      return el("tr", { class: "broken" }, el("td"), el("td", { colspan: COLUMNS.length }, `${row.run}: ${row.error}`));
    }
    const pick = el("input", {
      type: "checkbox", "aria-label": `Compare ${row.run}`,
      onchange: () => {
        this.chosen = this.chosen.filter((run) => run !== row.run);
        if (pick.checked) this.chosen = [...this.chosen, row.run].slice(-2);
        this.both.disabled = this.chosen.length !== 2;
        this.fill();
      },
    });
    pick.checked = this.chosen.includes(row.run);
    const link = el("a", { href: address([row.run]), title: row.run }, row.task, row.shock ? " ⚡" : "");
    const mark = row.live ? el("span", { class: "live" }, " ● live") : "";
    return el("tr", {}, el("td", {}, pick), el("td", {}, link, mark),
      COLUMNS.slice(1).map(([name]) => el("td", { class: NUMBERS.has(name) ? "number" : "" },
        typeof row[name] === "number" ? figure(row[name]) : String(row[name] ?? "–"))));
  }
}
