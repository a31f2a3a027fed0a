/** The view "Adapter": the factors of all singular values as a heat map, and the singular values of one matrix. */

import { adapterCode } from "../code/adapter_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { dropdown, row } from "../parts/controls.js";
import { coalesced, fill, make } from "../parts/dom.js";
import { heatMap } from "../parts/heat_map.js";
import { formatCount, formatNumber, formatPercent } from "../parts/number_format.js";
import { strings } from "./adapter_strings.js";

const MIN_COLOR_MAX = 0.01; // the difference of a factor from 1; smaller maxima do not get the strongest color

export const view = {
  name: "adapter",
  strings,
  state: { matrix: "" },

  async show(container, app) {
    const body = { run: app.run.id };
    const adapter = await app.fetchJson("adapter/matrices", body);
    const factors = await app.fetchArray("adapter/factors", body);
    const names = adapter.matrices.map(({ name }) => name);
    const values = factors.values.map((factor) => factor - 1);
    const columns = Array.from({ length: factors.shape[1] }, (_, index) => String(index + 1));
    const map = heatMap({ name: app.t("factors"), rows: names.map(shortName), columns, values, diverging: true, stretch: true,
      max: Math.max(...values.map(Math.abs), MIN_COLOR_MAX), onPick: ({ row: index }) => choose(names[index]) });
    map.canvas.dataset.plot = "factors";
    const details = make("div", {});
    const redraw = coalesced(() => drawMatrix({ details, map, adapter }, app));
    const select = dropdown(app, "matrix", { name: app.t("matrix"), options: names, redraw });
    const choose = (name) => {
      app.set({ matrix: name });
      select.set(name);
      redraw().catch(app.showError);
    };
    const percent = formatPercent(adapter.adapter_weights / adapter.model_weights);
    const summary = app.t("summary", { kind: app.t(`kind_${adapter.kind}`), base: adapter.base, percent,
      adapter: formatCount(adapter.adapter_weights), model: formatCount(adapter.model_weights) });
    fill(container, make("p", { class: "adapter-summary" }, summary), make("h2", {}, app.t("factors")),
      make("p", { class: "note" }, app.t("axes")), map.element, row(select), details);
    map.layOut();
    app.addDownload({ name: app.t("factors"), figure: map.figure, table: map.table });
    app.showCode({ name: app.t("title"), python: adapterCode(app.run) });
    select.set(mostChanged(app, adapter));
    await redraw();
  },
};

/** A name that fits beside the map: `encoder.blocks.0.self_attention.q_proj` becomes `encoder 0 self q`. */
function shortName(name) {
  return name.replace(".blocks.", " ").replace(".self_attention.", " self ").replace(".cross_attention.", " cross ")
    .replace(".feed_forward.", " ffn ").replace(/_proj$/, "");
}

/** The matrix of the link, or the one that changed most. */
function mostChanged(app, { matrices }) {
  const chosen = matrices.find(({ name }) => name === app.state.matrix);
  return (chosen ?? matrices.reduce((one, other) => (other.change > one.change ? other : one))).name;
}

async function drawMatrix({ details, map, adapter }, app) {
  const name = mostChanged(app, adapter);
  const { before, after } = await app.fetchJson("adapter/matrix", { run: app.run.id, matrix: name });
  const x = before.map((_, index) => index + 1);
  const lines = [{ name: app.t("before"), x, y: before, dashed: true }, { name: app.t("after"), x, y: after }];
  const title = app.t("values", { matrix: name });
  const chart = lineChart({ name: title, lines, xName: app.t("rank"), from: 0 });
  const { change } = adapter.matrices.find((each) => each.name === name);
  const note = make("p", { class: "note" }, app.t("change", { change: formatNumber(change) }));
  fill(details, make("div", { class: "charts" }, chart.element), legend(lines), note);
  map.mark({ row: adapter.matrices.findIndex((each) => each.name === name) });
  app.addDownload({ key: "values", name: title, figure: chart.svg, table: chart.table });
}
