// One decision: what the agent saw, said and did, and where its traces came from.
import { el, pairs } from "./dom.js";
import { KINDS } from "./model.js";
import { source } from "./source.js";

export class AgentPanel {
  // `go(round, agent)` moves the clock and the choice; `trail(hops)` draws the way of a trace.
  constructor(episode, go, trail) {
    Object.assign(this, { episode, go, trail });
    this.field = el("input", {
      type: "number", min: "0", max: String(episode.n - 1), "aria-label": "Agent",
      onchange: () => {
        const agent = Number(this.field.value);
        if (Number.isInteger(agent) && agent >= 0 && agent < episode.n) go(this.round, agent);
      },
    });
    const step = (name, direction) =>
      el("button", { type: "button", onclick: () => this.step(direction) }, name);
    this.body = el("div", { class: "decision", "aria-live": "polite" },
      el("p", { class: "soft" }, "A circle is an agent, its colour the claim it holds; what moves between agents are messages. "
        + "Click an agent, or type its number, to see what it saw, said and did."));
    this.root = el("section", { class: "panel", "aria-label": "Decision of an agent" },
      el("div", { class: "bar" }, el("label", {}, "Agent ", this.field),
        step("‹ previous decision", -1), step("next decision ›", 1)),
      this.body,
    );
  }

  step(direction) {
    if (this.agent === undefined) return;
    const round = this.episode.decision(this.agent, this.round, direction);
    if (round !== null) this.go(round, this.agent);
  }

  async show(round, agent) {
    const same = this.round === round && this.agent === agent;
    this.round = round;
    if (agent === null || agent === undefined || same) return;
    this.agent = agent;
    this.field.value = agent;
    const asked = (this.asked = {});
    try {
      const update = await source.update(this.episode.run, round, agent);
      if (this.asked === asked) this.body.replaceChildren(...this.sections(update));
    } catch (error) {
      if (this.asked === asked) this.body.replaceChildren(el("p", { role: "alert" }, error.message));
    }
  }

  sections(update) {
    const title = el("h3", {}, `Agent ${this.agent} in round ${this.round}`);
    if (!update) return [title, el("p", {}, "It took no part in this round.")];
    const unseen = el("p", { class: "soft" }, "The record holds measures only; play the case again and keep it whole.");
    return [
      el("h3", {}, `Agent ${this.agent} in round ${this.round}: ${update.mode}`),
      el("h4", {}, "Did"), pairs(update.did),
      el("h4", {}, `Admitted ${update.stage}`),
      update.codes.length ? pairs(update.codes) : null,
      pairs(update.decision),
      el("h4", {}, "Said"), ...update.raw.map((raw) => el("pre", {}, raw)),
      el("h4", {}, "Saw"), update.saw ? pairs(update.saw) : unseen,
      update.traces?.length ? el("h4", {}, "Traces it saw") : null,
      ...(update.traces ?? []).map((trace) => this.trace(trace)),
      update.tail === undefined ? null : el("details", {}, el("summary", {}, "The prompt, as the law gets it"),
        el("pre", {}, `${this.episode.system}\n\n${this.episode.prefix}${update.tail}`)),
    ].filter((part) => part !== null);
  }

  trace([text, alias, handle]) {
    const claim = this.episode.byAlias.get(alias);
    const senders = claim === undefined ? [] : this.episode.senders(this.agent, this.round, claim, handle);
    const way = el("div", {});
    const jump = (hop) => el("button", { type: "button", onclick: () => this.go(hop.round, hop.from) },
      `agent ${hop.from}, round ${hop.round} (${KINDS[hop.kind]})`);
    const follow = () => {
      const hops = this.episode.hops(senders[0], claim);
      const end = hops.at(-1).kind === 1 ? "the record shows no earlier sender" : "written from its own evidence";
      this.trail(hops);
      way.replaceChildren(el("ol", { class: "hops", "aria-label": "Way of the trace, latest first" },
        hops.map((hop) => el("li", {}, jump(hop)))), el("p", { class: "soft" }, end));
    };
    return el("div", { class: "trace" },
      el("p", {}, text, claim === undefined ? "" : ` = ${this.episode.claims[claim]}`),
      senders.length
        ? el("p", {}, senders.length > 1 ? "came from one of " : "came from ", senders.map(jump),
          el("button", { type: "button", class: "follow", onclick: follow }, "follow back"))
        : el("p", { class: "soft" }, "no message of the last eight rounds carries it"),
      way);
  }
}
