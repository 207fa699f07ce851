"use strict";
(() => {
  const runs = JSON.parse(document.getElementById("data").textContent);
  const away = new Set();

  const text = (tag, content, className) => {
    const node = document.createElement(tag);
    node.textContent = content;
    if (className) node.className = className;
    return node;
  };
  const strengthText = (strength) =>
    strength === "inf" ? "∞" : Number(strength.toPrecision(3)).toString();

  // Curves: a cursor that reads the values of the nearest epoch.
  const readout = document.querySelector(".readout");
  function fillReadout(epoch) {
    const table = document.createElement("table");
    for (const run of runs) {
      const record = run.epochs[epoch];
      if (!record || away.has(run.method)) continue;
      const row = table.insertRow();
      const name = row.insertCell();
      name.append(text("span", "", `swatch ${run.method}`), run.label);
      row.insertCell().textContent = `${record.accuracy.toFixed(2)} %`;
      const hard = record.accuracy_projected;
      row.insertCell().textContent =
        record.phase === 1 && hard !== null ? `if hard now ${hard.toFixed(2)} %` : "";
    }
    const relaxed = runs.find((run) => run.relaxed)?.epochs[epoch];
    const heading = relaxed
      ? `After epoch ${epoch + 1} · Phase ${"I".repeat(relaxed.phase)} · λ = ${strengthText(relaxed.strength)}`
      : `After epoch ${epoch + 1}`;
    readout.replaceChildren(text("strong", heading), table);
  }
  function readAt(svg, epoch) {
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
  }
  function stopReading(svg) {
    svg.classList.remove("read");
    readout.hidden = true;
  }
  for (const svg of document.querySelectorAll(".curves")) {
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

  // Legend: show and hide a method.
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const method = button.dataset.method;
      const hide = !away.has(method);
      if (hide) away.add(method);
      else away.delete(method);
      button.setAttribute("aria-pressed", String(!hide));
      for (const curve of document.querySelectorAll(`.curve.${method}`)) curve.classList.toggle("away", hide);
    });
  }

  // Histograms: a slider over the epochs.
  const height = ({ top, bottom, tallest }, share) =>
    bottom - Math.sqrt(share / tallest) * (bottom - top);
  function shape(place, counts, total) {
    const left = +place.left, right = +place.right, bottom = +place.bottom;
    const width = (right - left) / counts.length;
    let path = `M${left},${bottom}`;
    counts.forEach((count, index) => {
      const y = height(place, count / total).toFixed(2);
      path += `L${(left + index * width).toFixed(2)},${y}L${(left + (index + 1) * width).toFixed(2)},${y}`;
    });
    return `${path}L${right},${bottom}Z`;
  }
  function captionOf(snapshot) {
    if (snapshot.epoch === null) return "before: the float network";
    return `Phase ${"I".repeat(snapshot.phase)}, λ = ${strengthText(snapshot.strength)}, distance to Q ${Number(snapshot.distance.toPrecision(3))}`;
  }
  function showMoment(moment) {
    for (const panel of document.querySelectorAll(".panels.moving article")) {
      const { histograms } = runs.find((run) => run.method === panel.dataset.method);
      const snapshot = histograms.snapshots[Math.min(moment, histograms.snapshots.length - 1)];
      const place = panel.querySelector("svg").dataset;
      const outline = shape(place, snapshot.counts, histograms.num_weights);
      panel.querySelector(".weights").setAttribute("d", outline);
      panel.querySelector("p").textContent = captionOf(snapshot);
      for (const share of panel.querySelectorAll(".share")) {
        const part = snapshot.counts[share.dataset.bin] / histograms.num_weights;
        share.textContent = part > 0.1 ? `${Math.round(100 * part)} %` : "";
        share.setAttribute("y", height(place, part) - 5);
      }
    }
    when.textContent = moment === 0 ? "before training" : `after epoch ${moment} of ${slider.max}`;
  }
  const slider = document.getElementById("moment");
  const play = document.getElementById("play");
  const when = document.getElementById("when");
  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (slider.value === slider.max) slider.value = 0;
    showMoment(+slider.value);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      showMoment(+slider.value);
      if (slider.value === slider.max) stop();
    }, 700);
  });
  slider.addEventListener("input", () => { stop(); showMoment(+slider.value); });
  document.querySelector(".controls").hidden = false;
  showMoment(+slider.value);
})();
