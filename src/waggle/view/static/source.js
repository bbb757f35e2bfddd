// Where the data comes from: the server of `waggle view`, or the scripts of an export.

async function ask(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || `the server answered ${answer.status}`);
  return value;
}

const server = {
  grows: true,
  runs: (start) => ask("api/runs", { start }),
  episode: (run) => ask("api/episode", { run }),
  more: (run, start) => ask("api/more", { run, start }),
  update: (run, round, agent) => ask("api/update", { run, round, agent }),
};

function script(key) {
  const held = window.waggleExport;
  if (key in held) return Promise.resolve(held[key]);
  return new Promise((resolve, reject) => {
    const tag = document.createElement("script");
    tag.src = `data/${key}.js`;
    tag.onload = () => {
      tag.remove();
      resolve(held[key]);
    };
    tag.onerror = () => reject(new Error(`data/${key}.js is missing; export again`));
    document.head.append(tag);
  });
}

const files = {
  number: (run) => window.waggleExport.runs.findIndex((row) => row.run === run),
  grows: false,
  runs: async () => ({ runs: window.waggleExport.runs, total: window.waggleExport.runs.length, live: [] }),
  episode: (run) => script(`${files.number(run)}`),
  update: async (run, round, agent) => (await script(`${files.number(run)}-${round}`))[agent] ?? null,
};

export const source = window.waggleExport ? files : server;
