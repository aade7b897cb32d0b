// Sliders in a notebook: the browser's bound while a slider moves, then the kernel's certified interval.

import { show } from "../lib/numbers";
import { readFederatedRequest } from "../lib/openapi";
import type { RawValues } from "../lib/parse-values";
import { browserEngine } from "../lib/browser-accountant/engine";

/** The part of anywidget's model used here. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
  save_changes(): void;
}

/** The kernel's result for the values in `asked`. */
interface Certified {
  asked: Record<string, number | null>;
  lower?: number | null;
  upper?: number | null; // null: no bound
  closed_form?: number | null;
  closed_form_note?: string;
  trouble?: string;
}

interface Slider {
  name: string;
  label: string;
  least: number;
  most: (model: Model) => number;
  integer: boolean;
}

const NAMES = ["population", "cohort_size", "rounds", "noise_multiplier", "delta"] as const;
const SLIDERS: readonly Slider[] = [
  { name: "noise_multiplier", label: "noise multiplier σ", least: 0.3, most: () => 30, integer: false },
  { name: "rounds", label: "rounds T", least: 1, most: () => 100_000, integer: true },
  { name: "cohort_size", label: "cohort m", least: 1, most: (model) => Number(model.get("population")), integer: true },
];
const [CLAIM, ESTIMATE] = ["#12877f", "#bf5b16"]; // readable on white and on black
const STEPS = 400;

/** Slider positions are evenly spaced on a logarithmic scale. */
export const valueAt = (place: number, least: number, most: number, integer: boolean): number => {
  const value = least * (most / least) ** (place / STEPS);
  return integer ? Math.min(most, Math.round(value)) : Number(value.toPrecision(3));
};
export const positionOf = (value: number, least: number, most: number): number =>
  most > least ? Math.round((STEPS * Math.log(Math.max(least, Math.min(most, value)) / least)) / Math.log(most / least)) : 0;

const readInputs = (model: Model): Record<string, number | null> => Object.fromEntries(NAMES.map((name) => [name, model.get(name) as number | null]));
const sameInputs = (one: Record<string, unknown>, other: Record<string, unknown>): boolean => NAMES.every((name) => one[name] === other[name]);

function makeElement<K extends keyof HTMLElementTagNameMap>(tag: K, style: string, ...inside: (Node | string)[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  element.style.cssText = style;
  element.append(...inside);
  return element;
}

let sliderCount = 0;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const claim = makeElement("b", `font-size:1.9em;color:${CLAIM}`);
  const note = makeElement("span", "margin-left:.8em");
  const bar = makeElement("div", "");
  const statement = makeElement("p", "margin:.3em 0");
  statement.setAttribute("role", "status");
  const rows = SLIDERS.map((slider) => {
    const input = makeElement("input", `width:100%;accent-color:${CLAIM}`);
    input.type = "range";
    input.min = "0";
    input.max = String(STEPS);
    input.id = `epsilog-${slider.name}-${sliderCount++}`;
    const label = makeElement("label", "");
    label.htmlFor = input.id;
    const output = makeElement("output", "font-variant-numeric:tabular-nums;text-align:right");
    input.addEventListener("input", () => {
      model.set(slider.name, valueAt(Number(input.value), slider.least, slider.most(model), slider.integer));
      void draw();
    });
    input.addEventListener("change", () => model.save_changes());
    label.append(slider.label);
    return { slider, input, output, label };
  });
  const grid = makeElement("div", "display:grid;grid-template-columns:max-content minmax(8em,22em) 6em;gap:.2em .8em;align-items:center", ...rows.flatMap(({ label, input, output }) => [label, input, output]));
  el.replaceChildren(makeElement("div", "font:14px system-ui,sans-serif;max-width:36em", grid, makeElement("p", "margin:.5em 0 0", claim, note), bar, statement));

  let latest = 0;
  const draw = async (): Promise<void> => {
    const request = ++latest;
    for (const { slider, input, output } of rows) {
      const value = Number(model.get(slider.name));
      input.value = String(positionOf(value, slider.least, slider.most(model)));
      input.setAttribute("aria-valuetext", show(value));
      output.textContent = show(value);
    }
    const now = readInputs(model);
    const certified = model.get("certified") as Partial<Certified>;
    if (certified.asked && sameInputs(certified.asked, now)) {
      const upper = certified.upper ?? Infinity;
      claim.textContent = certified.trouble ? "" : `ε ≤ ${show(upper, 4, "up")}`;
      note.textContent = certified.trouble ? "" : `proven${certified.lower ? `; at least ${show(certified.lower, 4, "down")}` : ""}`;
      statement.textContent = certified.trouble ?? certified.closed_form_note ?? "";
      drawBar(bar, certified.trouble ? null : [certified.lower ?? 0, upper], certified.closed_form ?? null);
      return;
    }
    try {
      const found = await browserEngine.federated(readFederatedRequest(now as RawValues), new AbortController().signal);
      if (request !== latest) return;
      claim.textContent = `ε ≤ ${show(found.epsilon.upper, 4, "up")}`;
      note.textContent = "browser bound; the proven one follows…";
      statement.textContent = "";
      drawBar(bar, [0, found.epsilon.upper], found.closed_form.total);
    } catch (error) {
      if (request !== latest) return;
      claim.textContent = note.textContent = "";
      statement.textContent = error instanceof Error ? error.message : String(error);
      drawBar(bar, null, null);
    }
  };
  const changed = (): void => void draw();
  const events = [...NAMES, "certified"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, changed);
  void draw();
  return () => events.forEach((event) => model.off(event, changed));
}

/** Draw the certified interval as a band, and the closed form as a tick. */
function drawBar(place: HTMLElement, band: readonly [number, number] | null, formula: number | null): void {
  if (band === null || !Number.isFinite(band[1])) {
    place.replaceChildren();
    return;
  }
  const most = 1.12 * Math.max(band[1], formula ?? 0, 1e-12);
  const at = (value: number): number => (100 * value) / most;
  place.innerHTML = `<svg viewBox="0 0 100 8" preserveAspectRatio="none" width="100%" height="22" aria-hidden="true"><path d="M0 4H100" stroke="currentColor" stroke-opacity=".35" stroke-width=".4"/><rect x="${at(band[0])}" y="1.5" width="${Math.max(0.5, at(band[1]) - at(band[0]))}" height="5" fill="${CLAIM}" fill-opacity=".35"/><rect x="${at(band[1]) - 0.3}" width=".6" height="8" fill="${CLAIM}"/>${formula === null ? "" : `<rect x="${at(formula) - 0.3}" width=".6" height="8" fill="${ESTIMATE}"/>`}</svg>`;
}

export default { render };
