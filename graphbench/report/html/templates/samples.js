// Draws the samples of a row: in the order in which they were taken, and how they are distributed.
//
// window.graphbench.drawSamples(element, series): `series` are `Series` of model.py as JSON. Where a few samples are
// far above the others the axis ends below them, and the legend says how many are beyond it.
"use strict";

(function () {
  const page = (window.graphbench = window.graphbench || {});
  const SCALES_NS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const QUANTILES = [["p10", 0.1, "dot"], ["p50", 0.5, "solid"], ["p90", 0.9, "dot"]];
  const SYMBOLS = ["circle", "diamond", "square", "cross"];
  const BINS = 40;
  const AROUND = 75; // pixels of both axes' labels
  const PANELS = 165;
  const LEGEND_LINE = 22;
  const REACH = 4; // so many times p90 - p10 beyond p90 are shown

  /** The q-quantile of sorted numbers, by linear interpolation, as analysis/stats.py has it. */
  function quantile(sorted, q) {
    const position = q * (sorted.length - 1);
    const below = Math.floor(position);
    const above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (position - below);
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  /** Samples in the unit of the axis, sorted, and their quantiles. */
  function sorted(entry, scale) {
    const values = entry.values_ns.map((value) => value / scale);
    const ordered = [...values].sort((a, b) => a - b);
    return { name: entry.name, values, ordered, quantiles: QUANTILES.map(([, q]) => quantile(ordered, q)) };
  }

  /** Where the axis starts and ends: all samples, but for those far beyond the p90 of every series. */
  function rangeOf(entries) {
    const least = Math.min(...entries.map((entry) => entry.ordered[0]));
    const most = Math.max(...entries.map((entry) => entry.ordered[entry.ordered.length - 1]));
    const far = ({ quantiles: [p10, p50, p90] }) => p90 + REACH * Math.max(p90 - p10, 0.02 * p50);
    const end = Math.min(most, Math.max(...entries.map(far)));
    const margin = 0.04 * (end - least) || 0.05 * end || 1;
    return [Math.max(0, least - margin), end + margin];
  }

  function nameOf(entry, unit, end) {
    const told = QUANTILES.map(([name], i) => `${name} ${entry.quantiles[i].toPrecision(3)}`).join(", ");
    const beyond = entry.values.filter((value) => value > end).length;
    const rest = beyond ? `; ${beyond} above the axis` : "";
    return escaped(`${entry.name}: ${told} ${unit} (n = ${entry.values.length}${rest})`);
  }

  function tracesOf(entry, index, unit, range) {
    const shared = { legendgroup: String(index), name: nameOf(entry, unit, range[1]) };
    const marker = { color: `var(--cat-${index + 1})`, symbol: SYMBOLS[index % SYMBOLS.length], size: 5 };
    const place = (i) => (100 * (i + 0.5)) / entry.values.length; // series of unlike length side by side
    const size = (range[1] - range[0]) / BINS;
    return [
      {
        ...shared, type: "scatter", mode: "markers", marker, x: entry.values.map((_, i) => place(i)), y: entry.values,
        customdata: entry.values.map((_, i) => i + 1),
        hovertemplate: `sample %{customdata}: %{y:.4g} ${unit}<extra></extra>`,
      },
      {
        ...shared, type: "histogram", histnorm: "percent", xaxis: "x2", y: entry.values, opacity: 0.65,
        ybins: { start: range[0], end: range[1], size }, marker: { color: marker.color }, showlegend: false,
        hovertemplate: `%{x:.3g} % at %{y} ${unit}<extra></extra>`,
      },
      ...entry.quantiles.map((value, i) => ({
        ...shared, type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip", x: [0, 100], y: [value, value],
        line: { color: marker.color, width: 1.5, dash: QUANTILES[i][2] },
      })),
    ];
  }

  function layoutOf(unit, range, count) {
    return {
      height: AROUND + PANELS + LEGEND_LINE * count,
      margin: { l: 8, r: 8, t: 8, b: 8 },
      barmode: "overlay",
      hovermode: "closest",
      xaxis: { domain: [0, 0.62], range: [0, 100], title: { text: "first to last sample (%)" }, automargin: true },
      xaxis2: { domain: [0.68, 1], title: { text: "samples (%)" }, automargin: true, rangemode: "tozero" },
      yaxis: { title: { text: `time (${unit})` }, range, automargin: true, zeroline: false },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
    };
  }

  page.drawSamples = function (element, series) {
    const known = series.filter((entry) => entry.values_ns.length);
    if (!known.length) return Promise.resolve();
    const longest = Math.max(...known.map((entry) => quantile([...entry.values_ns].sort((a, b) => a - b), 0.5)));
    const [unit, scale] = SCALES_NS.find(([, ns]) => longest >= ns) || SCALES_NS[SCALES_NS.length - 1];
    const entries = known.map((entry) => sorted(entry, scale));
    const range = rangeOf(entries);
    const traces = entries.flatMap((entry, index) => tracesOf(entry, index, unit, range));
    const caption = entries.map((entry) => nameOf(entry, unit, range[1])).join("; ");
    const layout = layoutOf(unit, range, entries.length);
    return page.drawFigure(element, { id: "samples", title: "Samples", caption, traces, layout });
  };
})();
