// SPDX-License-Identifier: MIT OR Apache-2.0
// Fills that tell apart without colour: each has a hatching of its own. The same
// on canvas and in the document.

const HATCHES = 6;
/** A colour's name in the style sheet, and a hatching. */
const BUSY = { colour: "--fill-0", hatch: 0 };
const WAITED = { colour: "--fill-1", hatch: 1 };
const ENDS = { colour: "--fill-2", hatch: 2 };
const BETWEEN = { colour: "--rest", hatch: 4 };
const UNKNOWN = { colour: "--rest", hatch: 0 };

/** The fill of the nth of many. Decode, the third lane, has the plain one. */
function fillOf(index) {
  const order = [2, 1, 0, 3, 4, 5];
  const colour = order[index % order.length];
  return { colour: `--fill-${colour}`, hatch: (colour + Math.floor(index / order.length)) % HATCHES };
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const GRADIENTS = [
  (c) => c,
  (c) => `repeating-linear-gradient(135deg, ${c} 0 3px, var(--raised) 3px 4.25px)`,
  (c) => `radial-gradient(circle at 3px 3px, var(--raised) 0 1px, transparent 1.3px) 0 0 / 6px 6px, ${c}`,
  (c) => `repeating-linear-gradient(90deg, ${c} 0 3px, var(--raised) 3px 4px)`,
  (c) => `repeating-linear-gradient(45deg, ${c} 0 3px, var(--raised) 3px 4.25px)`,
  (c) => `repeating-linear-gradient(0deg, ${c} 0 3px, var(--raised) 3px 4px)`,
];

/** Fills an element of the document. */
function swatch(node, { colour: name, hatch }) {
  const id = `${name} ${hatch}`;
  if (node.dataset.fill !== id) {
    node.dataset.fill = id;
    node.style.background = GRADIENTS[hatch](`var(${name})`);
  }
}

const patterns = new Map();

/** A fill for a canvas. */
function paint(context, { colour: name, hatch }) {
  const id = `${name} ${hatch} ${devicePixelRatio}`;
  if (!patterns.has(id)) patterns.set(id, hatch === 0 ? colour(name) : pattern(context, colour(name), hatch));
  return patterns.get(id);
}

function pattern(context, base, hatch) {
  const size = Math.round(6 * devicePixelRatio);
  const tile = el("canvas", { width: size, height: size });
  const pen = tile.getContext("2d");
  pen.fillStyle = base;
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = pen.strokeStyle = colour("--raised");
  pen.lineWidth = size / 5;
  const line = (...points) => {
    pen.beginPath();
    points.forEach(([x, y], index) => (index % 2 ? pen.lineTo(x * size, y * size) : pen.moveTo(x * size, y * size)));
    pen.stroke();
  };
  if (hatch === 1) line([-0.5, 0.5], [0.5, -0.5], [0, 1], [1, 0], [0.5, 1.5], [1.5, 0.5]);
  if (hatch === 2) {
    pen.beginPath();
    pen.arc(size / 2, size / 2, size / 5, 0, 7);
    pen.fill();
  }
  if (hatch === 3) line([0.5, 0], [0.5, 1]);
  if (hatch === 4) line([0.5, -0.5], [1.5, 0.5], [0, 0], [1, 1], [-0.5, 0.5], [0.5, 1.5]);
  if (hatch === 5) line([0, 0.5], [1, 0.5]);
  return context.createPattern(tile, "repeat");
}
