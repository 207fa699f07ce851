"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

function text(tag, content, className) {
  const node = document.createElement(tag);
  node.textContent = content;
  if (className) node.className = className;
  return node;
}
function strengthText(strength) {
  return strength === "inf" ? "∞" : Number(strength.toPrecision(3)).toString();
}
