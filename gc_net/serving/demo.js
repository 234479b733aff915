"use strict";
// Another server and model can be named: ?server=http://localhost:8501&model=birds
const query = new URLSearchParams(location.search);
const model = query.get("model") || document.querySelector("meta[name=model]").content;
const server = (query.get("server") || "").replace(/\/$/, "");
const SENT_AS_THEY_ARE = ["image/jpeg", "image/png"];
const LONGEST_SIDE = 800;  // of a drawing, in pixels
const byId = id => document.getElementById(id);
byId("name").textContent = server ? `${model} of ${server}` : model;

function element(tag, text, parent, className) {
  const node = document.createElement(tag);
  if (text !== null) node.textContent = text;
  if (className) node.className = className;
  parent.append(node);
  return node;
}

function toBase64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

async function decode(file) {
  try { return await createImageBitmap(file); }
  catch { throw new Error(`${file.name} is not an image that this browser can read.`); }
}

// The server decodes these as the browser does; the browser turns others, such as WebP, into PNG.
function asSent(file, bitmap) {
  if (SENT_AS_THEY_ARE.includes(file.type)) return file;
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width; canvas.height = bitmap.height;
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
}

async function ask(blob) {
  const body = JSON.stringify({
    signature_name: "serve_bytes", inputs: {image_bytes: [{b64: await toBase64(blob)}]},
  });
  let response;
  try {
    response = await fetch(`${server}/v1/models/${encodeURIComponent(model)}:predict`, {method: "POST", body});
  } catch { throw new Error("The server does not answer."); }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
  return Object.fromEntries(Object.entries(answer.outputs).map(([name, value]) => [name, value[0]]));
}

function picture(bitmap, caption, parent) {
  const figure = element("figure", null, parent);
  const canvas = element("canvas", null, figure);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", caption);
  element("figcaption", caption, figure);
  return canvas;
}

function path(canvas, points) {
  const shape = new Path2D();
  points.forEach(([x, y], index) => shape[index ? "lineTo" : "moveTo"](x * canvas.width, y * canvas.height));
  shape.closePath();
  return shape;
}

function drawLocalized(canvas, bitmap, found) {
  const context = canvas.getContext("2d");
  const width = Math.max(1, Math.round(Math.max(canvas.width, canvas.height) / 150));
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const outline = path(canvas, found.outlines);
  for (const [color, extra] of [["white", 2], ["black", 0]]) {
    context.strokeStyle = color; context.lineWidth = width + extra; context.stroke(outline);
  }
  const [x1, y1, x2, y2] = found.boxes.map(value => Math.min(1, Math.max(0, value)));
  context.strokeStyle = "rgb(24 96 255)"; context.lineWidth = width;
  context.strokeRect(x1 * canvas.width, y1 * canvas.height, (x2 - x1) * canvas.width, (y2 - y1) * canvas.height);
}

function drawObject(canvas, bitmap, found) {
  const context = canvas.getContext("2d");
  context.fillStyle = "rgb(127 127 127)";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.clip(path(canvas, found.outlines));
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
}

async function show(file) {
  const article = document.createElement("article");
  element("h2", file.name, article);
  byId("results").prepend(article);
  try {
    const bitmap = await decode(file);
    const start = performance.now();
    const found = await ask(await asSent(file, bitmap));
    const milliseconds = Math.round(performance.now() - start);
    const pictures = element("div", null, article, "pictures");
    drawLocalized(picture(bitmap, "shape in black, box in blue", pictures), bitmap, found);
    drawObject(picture(bitmap, "the object, masked", pictures), bitmap, found);
    const table = element("table", null, article);
    const row = (name, value) => {
      const line = element("tr", null, table);
      element("td", name, line); element("td", value, line);
    };
    const [height, width] = found.image_sizes;
    const box = found.boxes.map((value, index) => Math.round(value * (index % 2 ? height : width)));
    found.class_names.slice(0, 3).forEach((name, index) =>
      row(index ? "" : "class", `${name} ${(100 * found.class_probabilities[index]).toFixed(1)} %`));
    row("confidence", found.confidence.toFixed(2));
    row("box", `${box.join(", ")} of ${width} × ${height} pixels`);
    row("time", `${milliseconds} ms, there and back`);
    article.dataset.box = JSON.stringify(found.boxes);
  } catch (error) {
    element("p", error.message, article, "error").setAttribute("role", "alert");
  }
}

async function showAll(files) {
  const total = files.length;
  for (let index = 0; index < total; index++) {
    byId("status").textContent = `${index + 1} of ${total} …`;
    await show(files[index]);
  }
  byId("status").textContent = total === 1 ? "1 image done." : `${total} images done.`;
}

byId("files").addEventListener("change", async event => {
  const files = [...event.target.files];
  event.target.value = "";  // so that the same file can be chosen again
  await showAll(files);
});
const drop = byId("drop");
for (const name of ["dragenter", "dragover"])
  drop.addEventListener(name, event => { event.preventDefault(); drop.classList.add("over"); });
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
drop.addEventListener("drop", event => { event.preventDefault(); showAll([...event.dataTransfer.files]); });
