// On paper nothing scrolls and all is light: every row of the tables that are open is there, and every picture.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const root = document.documentElement;
  const idle = window.requestIdleCallback || ((act) => window.setTimeout(act, 200));
  let theme = "";

  // Printing waits for nothing, so plotly has to be unpacked before: when the browser has nothing else to do.
  if (document.querySelector(".plot") !== null) {
    window.addEventListener("load", () => idle(() => graphbench.plotlyReady()), { once: true });
  }

  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    if (theme !== "light") {
      graphbench.applyTheme("light");
    }
    for (const table of graphbench.tables.filter((one) => one.body !== undefined)) {
      table.fill(table.shown.length);
    }
    graphbench.drawAll();
    document.body.style.minWidth = `${root.clientWidth}px`; // the paper's scale is such that pictures fit
  });

  window.addEventListener("afterprint", () => {
    document.body.style.minWidth = "";
    if (theme !== root.dataset.theme) {
      graphbench.applyTheme(theme);
    }
  });
})();
