// What of a table is shown: text, choices and columns. A change calls `changed()`.
(function () {
  "use strict";
  const { element } = window.graphbench;
  const MOST_CHOICES = 200;
  const FEW_ROWS = 12; // nobody filters so few

  // `fused` of `fused → kernel`
  function choiceOf(value) {
    return value === null ? "" : String(value).split(" → ")[0];
  }

  // Headers are short: `in` is the phase.
  function wordOf(column) {
    return column.key.replaceAll("_", " ");
  }

  class Filters {
    constructor(table, changed) {
      this.table = table;
      this.changed = changed;
      this.words = "";
      this.choices = new Map();
      this.marked = new Set();
      this.haystack = null;
    }

    passes(row) {
      for (const [column, wanted] of this.choices) {
        if (choiceOf(column.values[row]) !== wanted) {
          return false;
        }
      }
      for (const column of this.marked) {
        const value = column.values[row];
        if (!value || value === "ok") {
          return false;
        }
      }
      return this.words === "" || this.words.split(/\s+/).every((word) => this.text(row).includes(word));
    }

    // All texts of a row, also of hidden columns: those cells are searched that hold no number.
    text(row) {
      if (this.haystack === null) {
        const columns = this.table.columns.filter((column) => column.kind === "text");
        this.haystack = this.table.ids.map(() => "");
        for (let i = 0; i < this.table.rows; i += 1) {
          const cells = columns.map((column) => {
            const value = column.values[i] === null ? "" : String(column.values[i]);
            return column.texts[i] === value ? value : `${value}\n${column.texts[i]}`;
          });
          this.haystack[i] = cells.join("\n").toLowerCase();
        }
      }
      return this.haystack[row];
    }

    toolbar(counter) {
      if (this.table.rows <= FEW_ROWS) {
        const hides = this.table.columns.some((column) => column.hidden);
        return element("div", { class: "toolbar few" }, ...(hides ? [this.columnBox()] : []));
      }
      const bar = element("div", { class: "toolbar", role: "search", "aria-label": `Filter ${this.table.title}` });
      bar.append(this.textBox());
      for (const column of this.table.columns) {
        if (column.filter === "choice") {
          bar.append(this.choiceBox(column));
        } else if (column.filter === "any") {
          bar.append(this.checkBox(column));
        }
      }
      bar.append(element("div", { class: "right" }, counter, this.columnBox()));
      return bar;
    }

    textBox() {
      const input = element("input", {
        type: "search",
        class: "words",
        placeholder: "filter rows ( / )",
        "aria-label": `Filter rows of ${this.table.title}`,
        oninput: (event) => {
          this.words = event.target.value.trim().toLowerCase();
          this.changed();
        },
      });
      return input;
    }

    choiceBox(column) {
      const counts = new Map();
      for (const value of column.values) {
        const choice = choiceOf(value);
        if (choice !== "") {
          counts.set(choice, (counts.get(choice) || 0) + 1);
        }
      }
      if (counts.size < 2 || counts.size > MOST_CHOICES) {
        return "";
      }
      const select = element("select", {
        "aria-label": `Only rows of one ${wordOf(column)}`,
        "data-filter": column.key,
        onchange: (event) => {
          if (event.target.value === "") {
            this.choices.delete(column);
          } else {
            this.choices.set(column, event.target.value.slice(1));
          }
          this.changed();
        },
      });
      select.append(element("option", { value: "" }, `every ${wordOf(column)}`));
      for (const [choice, count] of [...counts].sort((a, b) => b[1] - a[1])) {
        select.append(element("option", { value: `=${choice}` }, `${choice} (${count})`));
      }
      return select;
    }

    checkBox(column) {
      const count = column.values.filter((value) => value && value !== "ok").length;
      const box = element("input", {
        type: "checkbox",
        "data-filter": column.key,
        onchange: (event) => {
          if (event.target.checked) {
            this.marked.add(column);
          } else {
            this.marked.delete(column);
          }
          this.changed();
        },
      });
      return element("label", { class: "check" }, box, ` with ${wordOf(column)} (${count})`);
    }

    columnBox() {
      const list = element("div", { class: "choices" });
      for (const column of this.table.columns) {
        const box = element("input", {
          type: "checkbox",
          checked: !column.hidden,
          "data-column": column.key,
          onchange: (event) => {
            column.hidden = !event.target.checked;
            this.table.rebuild();
          },
        });
        list.append(element("label", {}, box, ` ${column.title}`));
      }
      const hidden = this.table.columns.filter((column) => column.hidden).length;
      const summary = element("summary", {}, hidden ? `columns (${hidden} hidden)` : "columns");
      return element("details", { class: "columns" }, summary, list);
    }
  }

  window.graphbench.Filters = Filters;
})();
