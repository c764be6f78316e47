// The page's data: tables at once, everything else when it is asked for.
(function () {
  "use strict";
  const graphbench = window.graphbench;
  const data = JSON.parse(document.getElementById("data").textContent);
  Object.setPrototypeOf(data.details, null); // whether a row has details is asked by its name, whatever that is
  graphbench.data = data;

  // The rest of the file lies behind this script: nothing can be unpacked before all of it is there.
  const complete = new Promise((resolve) => {
    if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", resolve, { once: true });
    } else {
      resolve();
    }
  });

  async function unpack(id) {
    await complete;
    const packed = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  const chunks = new Map();
  function chunkOf(number) {
    let chunk = 0;
    while (chunk + 1 < data.starts.length && data.starts[chunk + 1] <= number) {
      chunk += 1;
    }
    return chunk;
  }

  graphbench.unpack = unpack;
  graphbench.item = async function (number) {
    const chunk = chunkOf(number);
    if (!chunks.has(chunk)) {
      chunks.set(chunk, unpack(`chunk-${chunk}`).then(JSON.parse));
    }
    return (await chunks.get(chunk))[number - data.starts[chunk]];
  };

  graphbench.samples = async function (number) {
    const { scale, base, over } = await graphbench.item(number);
    return over.map((each) => (base + each) / scale);
  };

  graphbench.listed = function (column) {
    return Array.isArray(column) ? column : column.at.map((position) => column.pool[position]);
  };

  // An element with text; whatever the text holds, it is shown as text.
  graphbench.element = function (tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name === "class") {
        made.className = value;
      } else if (name.startsWith("on")) {
        made.addEventListener(name.slice(2), value);
      } else if (value !== null && value !== undefined && value !== false) {
        made.setAttribute(name, value === true ? "" : String(value));
      }
    }
    made.append(...children);
    return made;
  };
})();
