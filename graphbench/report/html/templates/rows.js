// The rows of a table: made as one scrolls, opened by a click or a key.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const { element } = graphbench;
  const CHUNK = 100; // rows
  const AHEAD = 800; // pixels

  // A table makes `body` and `frame`; `shown` are its rows in order.
  class Rows {
    // Rows until some lie below what is seen, or until `least` are there.
    fill(least = 0) {
      const columns = this.visible();
      for (let there = this.body.childElementCount; there < this.shown.length; there += CHUNK) {
        const { scrollTop, clientHeight, scrollHeight } = this.frame;
        const enough = clientHeight === 0 || scrollTop + clientHeight + AHEAD < scrollHeight;
        if (there > 0 && there >= least && enough) {
          return;
        }
        const rows = this.shown.slice(there, there + CHUNK);
        this.body.append(...rows.map((row, i) => this.row(row, there + i, columns)));
      }
    }

    row(row, position, columns) {
      const id = this.ids[row];
      const opens = graphbench.opens(id);
      const made = element("tr", {
        "aria-rowindex": String(position + 2),
        tabindex: position === 0 ? "0" : "-1",
        "data-row": String(row),
        class: opens ? (row === this.selected ? "opens selected" : "opens") : "",
      });
      for (const column of columns) {
        const text = column.texts[row];
        const names = column.isName;
        const cell = document.createElement(names ? "th" : "td");
        cell.className = column.kind;
        if (names) {
          cell.scope = "row";
        }
        const link = names && opens ? element("a", { href: graphbench.hashOf(id), tabindex: "-1" }) : null;
        if (column.mayBeCut(text)) {
          cell.title = text;
          cell.append(column.write(text, link || document.createElement("span")));
        } else if (link !== null) {
          link.textContent = text;
          cell.append(link);
        } else {
          cell.textContent = text;
        }
        made.append(cell);
      }
      return made;
    }

    clicked(event) {
      const row = event.target.closest("tr");
      if (row === null || event.target.closest("a") !== null || window.getSelection().type === "Range") {
        return;
      }
      this.focus(row);
      this.open(row);
    }

    open(row) {
      const id = this.ids[Number(row.dataset.row)];
      if (graphbench.opens(id)) {
        graphbench.show(id);
      }
    }

    focus(row) {
      for (const other of this.body.querySelectorAll('tr[tabindex="0"]')) {
        other.tabIndex = -1;
      }
      row.tabIndex = 0;
      row.focus({ preventScroll: true });
      row.scrollIntoView({ block: "nearest" });
    }

    keyed(event) {
      const row = event.target.closest("tr");
      const rows = this.body.children;
      const at = Array.prototype.indexOf.call(rows, row);
      const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 15, PageUp: at - 15, Home: 0 };
      steps.End = this.shown.length - 1;
      if (event.key === "Enter") {
        event.preventDefault();
        this.open(row);
      } else if (event.key in steps) {
        event.preventDefault();
        const next = Math.max(0, Math.min(this.shown.length - 1, steps[event.key]));
        this.fill(next + 1);
        this.focus(rows[next]);
      }
    }

    // Marks the row whose details are shown; `scroll` brings it into view, if no filter hides it.
    mark(id, scroll) {
      const row = id === null ? -1 : this.ids.indexOf(id);
      this.selected = row;
      if (this.body === undefined) {
        return null; // closed, or without rows
      }
      for (const other of this.body.querySelectorAll("tr.selected")) {
        other.classList.remove("selected");
      }
      const position = this.shown.indexOf(row);
      if (row < 0 || position < 0) {
        return null;
      }
      if (scroll) {
        this.fill(position + 1);
      }
      const made = this.body.children[position];
      if (made === undefined) {
        return null;
      }
      made.classList.add("selected");
      const { scrollTop, clientHeight } = this.frame;
      const seen = made.offsetTop >= scrollTop && made.offsetTop + made.offsetHeight <= scrollTop + clientHeight;
      if (scroll && !seen) {
        this.frame.scrollTop = Math.max(0, made.offsetTop - clientHeight / 2);
      }
      return made;
    }
  }

  graphbench.Rows = Rows;
})();
