// Charts: a cursor that reads the values of the nearest epoch, and a legend that hides curves.
function text(tag, content, className) {
  const node = document.createElement(tag);
  node.textContent = content;
  if (className) node.className = className;
  return node;
}
for (const chart of document.querySelectorAll(".chart[data-chart]")) {
  const { curves, strengths, unit } = data.charts[chart.dataset.chart];
  const readout = chart.querySelector(".readout");
  const away = new Set();

  const headingOf = (epoch) => {
    const heading = `After epoch ${epoch + 1}`;
    if (!strengths) return heading;
    const strength = strengths[epoch] ?? "∞";
    return `${heading} · Phase ${strength === "∞" ? "II" : "I"} · λ = ${strength}`;
  };
  const fillReadout = (epoch) => {
    const table = document.createElement("table");
    curves.forEach((curve, index) => {
      const value = curve.values[epoch];
      if (value === undefined || away.has(index)) return;
      const row = table.insertRow();
      row.insertCell().append(text("span", "", `swatch ${curve.method}`), curve.label);
      row.insertCell().textContent = `${value.toFixed(2)}${unit}`;
      const hard = curve.hard?.[epoch] ?? null;
      const limits = curve.seeds ? `${curve.low[epoch].toFixed(2)} to ${curve.high[epoch].toFixed(2)}` : "";
      row.insertCell().textContent =
        [limits, hard === null ? "" : `if hard now ${hard.toFixed(2)}${unit}`].filter(Boolean).join(", ");
    });
    readout.replaceChildren(text("strong", headingOf(epoch)), table);
  };
  const readAt = (svg, epoch) => {
    const { first, last, epochs } = svg.dataset;
    const x = epochs > 1 ? +first + ((last - first) * epoch) / (epochs - 1) : +first;
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    svg.classList.add("read");
    svg.dataset.epoch = epoch;
    fillReadout(epoch);
    readout.hidden = false;
    const place = (x / svg.viewBox.baseVal.width) * svg.clientWidth;
    const room = svg.clientWidth - readout.offsetWidth;
    const beside = place > svg.clientWidth / 2 ? place - readout.offsetWidth - 14 : place + 14;
    readout.style.left = `${Math.max(0, Math.min(room, beside))}px`;
  };
  const stopReading = (svg) => {
    svg.classList.remove("read");
    readout.hidden = true;
  };
  for (const svg of chart.querySelectorAll(".curves")) {
    const clamp = (epoch) => Math.max(0, Math.min(svg.dataset.epochs - 1, epoch));
    const read = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const { first, last, epochs } = svg.dataset;
      readAt(svg, clamp(Math.round(((x - first) / (last - first || 1)) * (epochs - 1))));
    };
    svg.addEventListener("pointermove", read);
    svg.addEventListener("pointerdown", read);
    svg.addEventListener("pointerleave", () => stopReading(svg));
    svg.addEventListener("blur", () => stopReading(svg));
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      readAt(svg, clamp(+(svg.dataset.epoch ?? (move > 0 ? -1 : svg.dataset.epochs)) + move));
    });
  }
  for (const button of chart.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const index = +button.dataset.curve;
      const hide = !away.has(index);
      if (hide) away.add(index);
      else away.delete(index);
      button.setAttribute("aria-pressed", String(!hide));
      for (const curve of chart.querySelectorAll(`.curve[data-curve="${index}"]`))
        curve.classList.toggle("away", hide);
    });
  }
}
