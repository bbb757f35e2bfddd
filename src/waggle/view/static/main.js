// The page: the list of runs, or the player of those that the address names.
import { el, pause } from "./dom.js";
import { Library } from "./library.js";
import { Episode } from "./model.js";
import { Player } from "./player.js";
import { source } from "./source.js";

const place = document.getElementById("main");
let shown = null;
const EVERY = 0.5; // seconds between two questions for new rounds
const PATIENCE = 10; // questions without an answer

function whole(text) {
  return /^\d+$/.test(text ?? "") ? Number(text) : null;
}

const back = () => el("p", { class: "back" }, el("a", { href: "#" }, "‹ all runs"));

// The episode of a run; of one that has just begun, as soon as there is a round.
async function opened(run, before, wanted) {
  for (;;) {
    const data = await source.episode(run);
    if (data.rounds.length) return new Episode(run, data, before);
    if (!data.live || !wanted()) throw new Error("the record has no rounds");
    place.replaceChildren(back(), el("p", { class: "soft" }, "Waiting for the first round…"));
    await pause(EVERY);
  }
}

// Ask for the rounds of an episode that is being played; when it is over, take the finished record.
async function follow(player, episode) {
  for (let missed = 0; shown === player; ) {
    await pause(EVERY);
    if (document.hidden || shown !== player) continue;
    try {
      const more = await source.more(episode.run, episode.length);
      missed = 0;
      if (!more.live) return show(player);
      if (more.rounds.length) player.grow(episode, more);
    } catch (error) {
      missed += 1; // between its end and its record there is a moment without either
      if (missed > PATIENCE) {
        place.append(el("p", { role: "alert", class: "alert" }, `No more rounds come: ${error.message}`));
        return;
      }
    }
  }
}

// Show what the address names; after `before`, the same at an earlier moment, keep round and agent.
async function show(before = null) {
  const asked = new URLSearchParams(location.hash.slice(1));
  const runs = [asked.get("run"), asked.get("with")].filter((run) => run);
  if (before === null) shown?.stop();
  const mine = (shown = { stop() {} });
  if (before === null) place.replaceChildren(el("p", { class: "soft" }, "Loading…"));
  try {
    if (!runs.length) {
      shown = new Library();
      place.replaceChildren(shown.root);
      await shown.load();
    } else {
      const episodes = await Promise.all(runs.map((run, place) =>
        opened(run, before?.tracks[place].episode, () => shown === mine)));
      if (shown !== mine) return;
      const playing = before?.playing;
      before?.stop();
      const player = (shown = new Player(episodes));
      place.replaceChildren(back(), player.root);
      const live = episodes.filter((episode) => episode.live);
      const round = before?.round ?? whole(asked.get("round")) ?? (live.length ? player.last : 0);
      const agents = before ? before.tracks.map((track) => track.stage.agent) : [whole(asked.get("agent"))];
      player.set(round);
      player.tracks.forEach((track, i) => {
        if ((agents[i] ?? track.episode.n) < track.episode.n) track.go(round, agents[i]);
      });
      if (playing) player.play();
      live.forEach((episode) => follow(player, episode));
    }
    document.body.dataset.ready = "yes";
  } catch (error) {
    place.replaceChildren(back(), el("p", { role: "alert", class: "alert" }, error.message));
  }
}

window.waggleViewer = () => shown;
window.addEventListener("hashchange", () => show());
show();
