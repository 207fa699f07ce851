// Runs: a box that hides the recipes whose names do not contain what is typed.
const filter = document.getElementById("filter");
filter.hidden = false;
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const recipe of document.querySelectorAll(".recipe"))
    recipe.hidden = !recipe.dataset.name.toLowerCase().includes(wanted);
});
