// Histograms: a slider over the epochs.
if (data.histograms.length) {
  const slider = document.getElementById("moment");
  const play = document.getElementById("play");
  const when = document.getElementById("when");
  const showMoment = (moment) => {
    for (const panel of document.querySelectorAll(".panels.moving article")) {
      const moments = data.histograms[panel.dataset.run];
      const { outline, caption, shares } = moments[Math.min(moment, moments.length - 1)];
      panel.querySelector(".weights").setAttribute("d", outline);
      panel.querySelector("p").textContent = caption;
      panel.querySelectorAll(".share").forEach((share, index) => {
        share.textContent = shares[index].text;
        share.setAttribute("y", shares[index].y - 5);
      });
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
