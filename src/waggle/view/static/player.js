// One clock for one or two episodes: play, pause, step, speed, keys.
import { AgentPanel } from "./agent.js";
import { curves } from "./curves.js";
import { el, figure, swatch } from "./dom.js";
import { Stage } from "./stage.js";

const REST = 0.5; // where in a round a paused picture stands: messages are half way

class Track {
  constructor(episode, player) {
    this.episode = episode;
    this.player = player;
    this.stage = new Stage(episode, (agent) => this.go(player.round, agent));
    this.panel = new AgentPanel(episode, (round, agent) => this.go(round, agent), (hops) => {
      this.stage.path = hops;
      this.stage.draw();
    });
    this.legend = el("p", { class: "legend" });
    this.status = el("p", { class: "status", role: "status" });
    this.plots = el("div", {});
    this.colours = el("select", {
      "aria-label": "Colour agents by",
      onchange: () => {
        episode.chosen = this.colours.value;
        episode.colourBy(this.colours.value);
        this.dress();
        player.draw();
      },
    }, ["claim", "action"].map((what) =>
      el("option", { value: what, selected: what === episode.what }, `colour by ${what}`)));
    this.root = el("section", { class: "track", "aria-label": `${episode.task}, ${episode.law}` },
      el("h2", {}, episode.task, el("span", { class: "soft" },
        ` law ${episode.law} · n ${episode.n} · seed ${episode.seed}${episode.live ? "" : ` · ${episode.length} rounds`}`)),
      this.stage.canvas, el("div", { class: "bar" }, this.colours, this.status), this.legend, this.plots, this.panel.root);
    this.dress();
  }

  // Show what has come since: words, curves and, where nobody chose, the colours.
  grown() {
    this.colours.value = this.episode.what;
    this.dress();
  }

  dress() {
    const { words } = this.episode;
    this.legend.replaceChildren(
      ...words.named.map((word) => el("span", { class: "key" }, swatch(words.colour(word)), words.words[word])),
      words.more ? el("span", { class: "key" }, swatch("#8b929e"), `${words.more} other${words.more > 1 ? "s" : ""}`) : "",
      el("span", { class: "key" }, el("span", { class: "swatch hollow" }), "none"),
      el("span", { class: "key soft" }, "● trace  ■ challenge  ◌ reopened"),
      this.episode.quiet ? el("span", { class: "key soft" }, "too many messages to be drawn") : "");
    this.curves = curves(this.episode, (round) => this.player.set(round));
    this.plots.replaceChildren(this.curves.root);
    this.shown = -1;
  }

  go(round, agent) {
    if (this.stage.agent !== agent) this.stage.path = this.stage.path.some((h) => h.from === agent) ? this.stage.path : [];
    this.stage.agent = agent;
    this.player.set(round);
    this.panel.show(this.at(), agent);
    this.stage.draw();
  }

  at() {
    return Math.max(0, Math.min(this.player.round, this.episode.length - 1));
  }

  draw(playing) {
    const round = this.at();
    this.stage.time = Math.min(this.player.time, this.episode.length - 1 + 0.999);
    this.stage.draw();
    if (this.shown === round) {
      if (!playing) this.panel.show(round, this.stage.agent);
      return;
    }
    this.shown = round;
    const entry = this.episode.rounds[round];
    const cut = Object.values(entry.silenced).reduce((a, b) => a + b, 0);
    this.status.textContent = `${this.episode.live ? "● live · " : ""}Round ${round} of ${this.episode.length - 1} · score ${figure(entry.score.score)}`
      + ` · ${figure(entry.arrived)} messages${cut ? ` · ${cut} writes silenced` : ""}`
      + `${entry.shock ? ` · injection: ${entry.shock.note}` : ""}`;
    this.curves.show(round);
    if (!playing) this.panel.show(round, this.stage.agent);
    else this.panel.round = round;
  }
}

export class Player {
  constructor(episodes) {
    this.last = Math.max(...episodes.map((episode) => episode.length)) - 1;
    this.time = REST;
    this.frames = 0;
    this.button = el("button", { type: "button", class: "play", onclick: () => this.toggle() }, "▶ Play");
    this.slider = el("input", {
      type: "range", min: "0", max: String(this.last), step: "1", value: "0", "aria-label": "Round",
      oninput: () => this.set(Number(this.slider.value)),
    });
    const speeds = [1, 2, 4, 8, 16];
    this.speed = el("select", { "aria-label": "Rounds a second" },
      speeds.map((speed) => el("option", { value: speed, selected: speed === 4 }, `${speed} rounds/s`)));
    const step = (text, label, by) =>
      el("button", { type: "button", "aria-label": label, onclick: () => this.set(this.round + by) }, text);
    this.tracks = episodes.map((episode) => new Track(episode, this));
    this.marks = el("span", { class: "bar" });
    this.mark();
    this.root = el("div", { class: episodes.length > 1 ? "two" : "one" },
      el("div", { class: "controls bar", role: "group", "aria-label": "Clock" },
        this.button, step("‹", "Previous round", -1), step("›", "Next round", 1), this.slider, this.speed, this.marks,
        el("span", { class: "soft keys" }, "space plays, arrows step")),
      el("div", { class: "tracks" }, this.tracks.map((track) => track.root)));
    this.keys = (event) => this.key(event);
    document.addEventListener("keydown", this.keys);
    this.draw();
  }

  mark() {
    const rounds = new Set(this.tracks.map(({ episode }) => episode.injection).filter((round) => round >= 0));
    this.marks.replaceChildren(...[...rounds].map((round) =>
      el("button", { type: "button", class: "injection", onclick: () => this.set(round) }, `injection at ${round}`)));
  }

  // Rounds have come: who looks at the latest one, or plays, goes on with them.
  grow(episode, more) {
    const along = this.playing || this.round >= this.last;
    episode.grow(more);
    this.last = Math.max(...this.tracks.map((track) => track.episode.length)) - 1;
    this.slider.max = String(this.last);
    this.tracks.find((track) => track.episode === episode).grown();
    this.mark();
    if (along && this.last - this.round > 2 * Number(this.speed.value)) this.time = this.last - 1;
    if (along && !this.playing) this.play();
    else this.draw();
  }

  get round() {
    return Math.min(this.last, Math.floor(this.time));
  }

  set(round) {
    this.pause();
    this.time = Math.max(0, Math.min(this.last, round)) + REST;
    this.draw();
  }

  toggle() {
    if (this.playing) this.set(this.round);
    else this.play();
  }

  play() {
    if (this.time >= this.last + REST) this.time = 0;
    this.playing = true;
    this.button.textContent = "❚❚ Pause";
    let before = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      // A browser that was busy goes on where it was; it does not leap over rounds.
      this.time += Math.min(0.1, (now - before) / 1000) * Number(this.speed.value);
      before = now;
      this.frames += 1;
      if (this.time >= this.last + REST) this.set(this.last);
      else {
        this.draw();
        requestAnimationFrame(frame);
      }
    };
    requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this.button.textContent = "▶ Play";
  }

  draw() {
    this.slider.value = this.round;
    this.slider.setAttribute("aria-valuetext", `round ${this.round} of ${this.last}`);
    for (const track of this.tracks) track.draw(this.playing);
  }

  key(event) {
    const { target } = event;
    if (target.closest("input[type=number], select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === " " && !target.closest("button, summary, a")) this.toggle();
    else if (event.key in moves) this.set(this.round + moves[event.key]);
    else return;
    event.preventDefault();
  }

  stop() {
    this.pause();
    document.removeEventListener("keydown", this.keys);
  }
}
