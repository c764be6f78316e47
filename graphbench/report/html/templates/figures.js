// Draws the page's pictures with plotly once they come into view, in the page's colours.
//
// window.graphbench.drawFigure(element, figure): `figure` is a `Figure` of model.py as JSON.
// A click on a point that has an id dispatches "graphbench:select" on document, with the id as its detail.
"use strict";

(function () {
  const page = (window.graphbench = window.graphbench || {});
  const COLOUR_KEY = /colou?rs?$/i;
  const VARIABLE = /^var\((--[\w-]+)\)$/;
  const AXIS_KEY = /^[xy]axis\d*$/;
  const NEAR = "300px";
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // element -> figure

  /** A deep copy in which colours named `var(--NAME)` are those of the page; texts stay as they are. */
  function inColour(value, styles, key) {
    if (Array.isArray(value)) return value.map((entry) => inColour(entry, styles, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, inColour(entry, styles, name)]));
    }
    const named = typeof value === "string" && COLOUR_KEY.test(key) ? VARIABLE.exec(value) : null;
    return named ? styles.getPropertyValue(named[1]).trim() || "gray" : value;
  }

  function axis(own) {
    const lines = { gridcolor: "var(--grid)", linecolor: "var(--grid)", zerolinecolor: "var(--grid)" };
    const title = { font: { color: "var(--muted)", size: 12 }, standoff: 8, ...(own.title || {}) };
    return { tickfont: { size: 12 }, ...lines, ...own, title };
  }

  function layoutOf(figure, font) {
    const own = figure.layout;
    const axes = Object.keys(own).filter((key) => AXIS_KEY.test(key));
    return {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      dragmode: "zoom",
      uirevision: figure.id,
      ...own,
      font: { family: font, size: 13, color: "var(--text)" },
      hoverlabel: {
        align: "left",
        bgcolor: "var(--surface)",
        bordercolor: "var(--muted)",
        font: { family: font, size: 13, color: "var(--text)" },
        namelength: -1,
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--muted)", activecolor: "var(--text)" },
      ...Object.fromEntries(axes.map((key) => [key, axis(own[key])])),
    };
  }

  function configOf(figure) {
    const zooms = figure.traces.every((trace) => trace.type !== "icicle") && hasFreeAxis(figure.layout);
    return {
      displaylogo: false,
      displayModeBar: "hover",
      doubleClick: "reset",
      modeBarButtons: [zooms ? ["zoom2d", "pan2d", "resetScale2d", "toImage"] : ["toImage"]],
      toImageButtonOptions: { filename: `graphbench-${figure.id}`, scale: 2 },
    };
  }

  function hasFreeAxis(layout) {
    return Object.keys(layout).some((key) => AXIS_KEY.test(key) && !layout[key].fixedrange);
  }

  function render(element, figure) {
    const styles = getComputedStyle(element);
    const traces = inColour(figure.traces, styles, "");
    const layout = inColour(layoutOf(figure, styles.fontFamily), styles, "");
    return window.Plotly.react(element, traces, layout, configOf(figure));
  }

  function start(element, figure) {
    if (drawn.has(element) || !element.isConnected) return;
    drawn.set(element, figure);
    element.textContent = "";
    try {
      render(element, figure);
    } catch (error) {
      fail(element, error);
      return;
    }
    element.on("plotly_click", (event) => select(event.points[0]));
    element.on("plotly_icicleclick", (event) => zoom(element, event));
    resizing.observe(element);
  }

  function fail(element, error) {
    drawn.delete(element);
    element.textContent = `This picture could not be drawn: ${error.message}`;
  }

  function select(point) {
    const id = point && point.customdata;
    if (typeof id === "string" && id) document.dispatchEvent(new CustomEvent("graphbench:select", { detail: id }));
  }

  /** A click on a part of an icicle shows its row; without motion it becomes the root at once. */
  function zoom(element, event) {
    const point = event.points[0];
    select(point);
    if (!still.matches || event.nextLevel === undefined) return true;
    window.Plotly.restyle(element, { level: [event.nextLevel] }, [point.curveNumber]);
    return false;
  }

  const resizing = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (!target.isConnected) resizing.unobserve(target);
      else if (target.clientWidth && target.layout) window.Plotly.Plots.resize(target);
    }
  });

  function repaint() {
    for (const [element, figure] of drawn) {
      if (element.isConnected) render(element, figure);
      else drawn.delete(element);
    }
  }

  /** Calls back once plotly is there: its script may stand at the end of the page. */
  function withPlotly(then, element) {
    if (window.Plotly) then();
    else if (document.readyState === "complete") fail(element, new Error("plotly is not part of this page"));
    else window.addEventListener("load", () => withPlotly(then, element), { once: true });
  }

  page.drawNow = (element, figure) => withPlotly(() => start(element, figure), element);

  page.drawFigure = function (element, figure) {
    element.style.minHeight = `${figure.layout.height}px`; // the page does not jump when it is drawn
    if (!element.hasAttribute("role")) element.setAttribute("role", "img");
    if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", `${figure.title}. ${figure.caption}`);
    const seen = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        page.drawNow(element, figure);
      },
      { rootMargin: NEAR },
    );
    seen.observe(element);
    window.addEventListener("beforeprint", () => page.drawNow(element, figure), { once: true });
  };

  document.addEventListener("graphbench:theme", repaint);
  dark.addEventListener("change", repaint);
})();
