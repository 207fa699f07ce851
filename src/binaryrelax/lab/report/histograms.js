// Histograms: a slider over the epochs.
if (data.histograms.length) {
  const height = ({ top, bottom, tallest }, share) =>
    bottom - Math.sqrt(share / tallest) * (bottom - top);
  const shape = (place, counts, total) => {
    const left = +place.left, right = +place.right, bottom = +place.bottom;
    const width = (right - left) / counts.length;
    let path = `M${left},${bottom}`;
    counts.forEach((count, index) => {
      const y = height(place, count / total).toFixed(2);
      path += `L${(left + index * width).toFixed(2)},${y}L${(left + (index + 1) * width).toFixed(2)},${y}`;
    });
    return `${path}L${right},${bottom}Z`;
  };
  const captionOf = (snapshot) => {
    if (snapshot.epoch === null) return "before: the float network";
    return `Phase ${"I".repeat(snapshot.phase)}, λ = ${strengthText(snapshot.strength)}, distance to Q ${Number(snapshot.distance.toPrecision(3))}`;
  };
  const slider = document.getElementById("moment");
  const play = document.getElementById("play");
  const when = document.getElementById("when");
  const showMoment = (moment) => {
    for (const panel of document.querySelectorAll(".panels.moving article")) {
      const histograms = data.histograms[panel.dataset.run];
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
  };
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  };
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
}
