// Epsilon by sliders, from certified intervals at the stops of the sliders: docs/_explorer.py makes the table.
"use strict";

// The interval for epsilon at a setting, {lower, upper}. Epsilon is monotone along every axis: the upper end at the
// nearest stops on the costly side holds here too, and the lower end at the nearest stops on the cheap side. Beyond the
// table they are Infinity and 0. `setting` has a positive number for each axis, by its name.
function bounds(table, setting) {
  let costly = 0, cheap = 0; // places in the flat table
  for (const { name, stops, grows } of table.axes) {
    const value = setting[name];
    if (!(value > 0 && value < Infinity)) throw new RangeError(`${name} must be a positive number, got ${value}`);
    const above = stops.findIndex((stop) => stop >= value), below = stops.findLastIndex((stop) => stop <= value);
    const [dearer, cheaper] = grows ? [above, below] : [below, above];
    costly = dearer < 0 ? NaN : costly * stops.length + dearer;
    cheap = cheaper < 0 ? NaN : cheap * stops.length + cheaper;
  }
  return { lower: table.lower[cheap] ?? 0, upper: table.upper[costly] ?? Infinity };
}

// Rounded outwards to four significant digits, as text.
function inWords(value, isUpper) {
  if (value === Infinity) return "∞";
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(value)) - 3);
  let near = Number(value.toPrecision(4));
  if (isUpper ? near < value : near > value) near += isUpper ? unit : -unit;
  return near >= 1e4 ? String(Number(near.toPrecision(4))) : near.toPrecision(4);
}

// A setting's value, as it is typed.
const typed = (value) => (value > 0 && value < 1e-3 ? value.toExponential() : String(value));

const SCHEMES = {
  poisson: {
    title: "Poisson sampling",
    start: { sampling_prob: 0.01, num_steps: 1000, target_delta: 1e-6, noise_multiplier: 1.0 },
    code: (s) =>
      `ja.PoissonSampled(ja.Gaussian(${s.noise_multiplier}), sampling_prob=${typed(s.sampling_prob)}, ` +
      `num_steps=${s.num_steps})`,
  },
  allocation: {
    title: "Random allocation",
    start: { num_steps: 1000, num_epochs: 10, target_delta: 1e-6, noise_multiplier: 1.0 },
    code: (s) =>
      `ja.RandomAllocation(ja.Gaussian(${s.noise_multiplier}), num_steps=${s.num_steps}, num_epochs=${s.num_epochs})`,
  },
};
const LABELS = {
  poisson: { sampling_prob: "Sampling probability", num_steps: "Steps in all" },
  allocation: { num_steps: "Steps of an epoch", num_epochs: "Epochs" },
  both: { target_delta: "Delta", noise_multiplier: "Noise multiplier" },
};

// An element with attributes and children; `svg` makes elements of a drawing.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function svg(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// Epsilon over the noise, both axes logarithmic: the line is the upper end at the stops; between two stops the truth
// lies in the shaded box. A dot marks the setting, or a bar where its ends are apart.
function drawing(table, setting, width) {
  const height = 300, left = 56, right = 12, top = 12, bottom = 44;
  const noise = table.axes[table.axes.length - 1].stops;
  const ends = noise.map((stop) => bounds(table, { ...setting, noise_multiplier: stop }));
  const picture = svg("svg", { width, height, role: "img", "aria-label": "Epsilon against the noise multiplier" });
  const finite = ends.filter((e) => e.upper < Infinity && e.lower > 0);
  if (!finite.length) return picture;
  const [low, high] = [Math.min(...finite.map((e) => e.lower)) / 1.2, Math.max(...finite.map((e) => e.upper)) * 1.2];
  const place = (value, from, to, start, end) =>
    start + ((end - start) * (Math.log(value) - Math.log(from))) / (Math.log(to) - Math.log(from));
  const x = (value) => place(value, noise[0], noise[noise.length - 1], left, width - right);
  const y = (value) => place(Math.min(Math.max(value, low), high), low, high, height - bottom, top);
  const ticks = [1, 2, 5].flatMap((digit) => [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5].map((power) => digit * 10 ** power));
  const shown = ticks.filter((tick) => tick >= low && tick <= high);
  const decades = shown.length > 8 ? shown.filter((tick) => /^1(e|0*$)|^0\.0*1$/.test(String(tick))) : shown;
  for (const tick of decades) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
    const label = String(Number(tick.toPrecision(1)));
    picture.append(svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, label));
  }
  for (const tick of [0.5, 1, 2, 5]) {
    picture.append(svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom }));
    picture.append(svg("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, String(tick)));
  }
  for (let n = 0; n + 1 < noise.length; n++) {
    const [up, down, side, next] = [y(ends[n].upper), y(ends[n + 1].lower), x(noise[n]), x(noise[n + 1])];
    picture.append(svg("rect", { class: "box", x: side, y: up, width: next - side, height: down - up }));
  }
  const points = noise.map((stop, n) => [stop, ends[n].upper]).filter(([, upper]) => upper < Infinity);
  picture.append(svg("polyline", { class: "curve", points: points.map(([s, e]) => `${x(s)},${y(e)}`).join(" ") }));
  const own = setting.noise_multiplier, { lower, upper } = bounds(table, setting);
  if (upper < Infinity && lower > 0) {
    const [x1, y1, y2] = [x(own), y(lower), y(upper)];
    if (y1 - y2 > 8) picture.append(svg("line", { class: "mark", x1, x2: x1, y1, y2 }));
    else picture.append(svg("circle", { class: "mark", cx: x1, cy: y2, r: 5 }));
  }
  const middle = (left + width - right) / 2;
  picture.append(svg("text", { x: middle, y: height - 8, "text-anchor": "middle" }, "noise multiplier"));
  const halfway = (height - bottom + top) / 2;
  const turned = { x: 14, y: halfway, "text-anchor": "middle", transform: `rotate(-90 14 ${halfway})` };
  picture.append(svg("text", turned, "epsilon"));
  return picture;
}

function start() {
  const place = document.getElementById("explorer");
  const tables = JSON.parse(document.getElementById("explorer-table").text);
  const choice = element("select", { id: "explorer-scheme" });
  for (const [name, { title }] of Object.entries(SCHEMES)) choice.append(element("option", { value: name }, title));
  const controls = element("div", { class: "explorer-controls" });
  const answer = element("p", { class: "explorer-answer", role: "status" }), note = element("p", {});
  const code = element("pre", {}), figure = element("div", { class: "explorer-figure" });
  const top = element("label", { for: "explorer-scheme" }, "Batches by");
  const first = element("div", { class: "explorer-scheme" }, top, choice);
  place.replaceChildren(first, controls, answer, note, figure, code);
  let scheme, table, setting;

  function show() {
    let ends;
    try {
      ends = bounds(table, setting);
    } catch (error) {
      [answer.textContent, note.textContent] = [error.message, ""];
      return;
    }
    const { lower, upper } = ends;
    answer.textContent = `${inWords(lower, false)} ≤ epsilon ≤ ${inWords(upper, true)}`;
    const width = upper / lower - 1;
    if (width <= 1e-3) note.textContent = "Certified from both sides.";
    else if (width < Infinity)
      note.textContent = `Certified, ${(width * 100).toPrecision(2)} % wide between stops. The code below is sharp.`;
    else note.textContent = "The setting lies outside the table. The code below answers it.";
    const question = `print(ja.epsilon_interval(run, target_delta=${typed(setting.target_delta)}))`;
    code.textContent = `import jaxacct as ja\n\nrun = ${SCHEMES[scheme].code(setting)}\n${question}`;
    figure.replaceChildren(drawing(table, setting, Math.max(280, figure.clientWidth)));
  }

  function choose() {
    [scheme, table] = [choice.value, tables[choice.value]];
    setting = { ...SCHEMES[scheme].start };
    controls.replaceChildren();
    for (const { name, stops } of table.axes) {
      const label = LABELS[scheme][name] ?? LABELS.both[name], id = `explorer-${name}`;
      const nearest = () => {
        const gaps = stops.map((stop) => Math.abs(Math.log(stop / setting[name])));
        return gaps.indexOf(Math.min(...gaps));
      };
      if (name === "noise_multiplier") setting[name] = stops[nearest()];
      const slider = element("input", { type: "range", id, min: 0, max: stops.length - 1, step: 1, value: nearest() });
      const field = element("input", { type: "text", inputmode: "decimal", "aria-label": `${label}, typed` });
      field.value = typed(setting[name]);
      slider.setAttribute("aria-valuetext", field.value);
      slider.addEventListener("input", () => {
        setting[name] = stops[slider.value];
        field.value = typed(setting[name]);
        slider.setAttribute("aria-valuetext", field.value);
        show();
      });
      field.addEventListener("input", () => {
        setting[name] = Number(field.value);
        if (setting[name] > 0) slider.value = nearest();
        show();
      });
      controls.append(element("label", { for: id }, label), slider, field);
    }
    show();
  }

  choice.addEventListener("change", choose);
  window.addEventListener("resize", show);
  choose();
}

if (typeof module !== "undefined") module.exports = { bounds, inWords };
else document.addEventListener("DOMContentLoaded", start);
