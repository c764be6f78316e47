// Before anything is painted: the theme that was chosen, or else the system's.
(function () {
  "use strict";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  function stored() {
    try {
      return window.localStorage.getItem("graphbench-theme");
    } catch (refused) {
      return null; // a page from a file may have no storage
    }
  }
  function keep(theme) {
    try {
      window.localStorage.setItem("graphbench-theme", theme);
    } catch (refused) {
      // then the choice lasts as long as the page
    }
  }
  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.setAttribute("aria-pressed", String(theme === "dark"));
    }
    document.dispatchEvent(new CustomEvent("graphbench:theme", { detail: theme }));
  }
  const chosen = stored();
  let followed = chosen !== "dark" && chosen !== "light";
  apply(followed ? (system.matches ? "dark" : "light") : chosen);
  system.addEventListener("change", () => followed && apply(system.matches ? "dark" : "light"));
  window.graphbench = {
    applyTheme: apply,
    toggleTheme() {
      followed = false;
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      keep(theme);
      apply(theme);
    },
  };
})();
