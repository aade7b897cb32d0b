// Numbers as people write them, and as they should be shown.

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export type Parsed = { ok: true; value: number } | { ok: false; error: string };

const bad = (error: string): Parsed => ({ ok: false, error });

function plainDigits(text: string): string {
  return text
    .replace(/[⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, (run) => [...run].map((c) => SUPERSCRIPT.indexOf(c)).join(""))
    .replace(/[⁻−–]/g, "-")
    .replace(/⁺/g, "+");
}

/**
 * Reads 1e-6, 10^-6, 10⁻⁶, 1.2×10^-6, 1/50000, 0.000001 and 50 000 alike. A comma is read only where it can mean one
 * thing: groups of three in a whole number.
 */
export function parseNumber(raw: string, options: { whole?: boolean } = {}): Parsed {
  let text = plainDigits(raw.trim().replace(/10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g, "10^$1")).replace(/[\s\u00a0\u2009\u202f_]/g, "");
  if (text === "") return bad("needs a number");
  if (text.includes(",")) {
    if (!options.whole || !/^\d{1,3}(,\d{3})+$/.test(text)) return bad("write the decimal point as a dot, without commas");
    text = text.replaceAll(",", "");
  }
  const value = evaluate(text);
  if (value === null) return bad(`is not a number: “${raw.trim().slice(0, 40)}”`);
  if (!Number.isFinite(value)) return bad("is too large");
  if (options.whole && !Number.isInteger(value)) return bad("must be a whole number");
  if (options.whole && !Number.isSafeInteger(value)) return bad("is too large");
  return { ok: true, value };
}

function evaluate(text: string): number | null {
  const plain = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  if (plain.test(text)) return Number(text);
  const power = /^(?:([+-]?(?:\d+\.?\d*|\.\d+))[×x*·])?10(?:\^|\*\*)([+-]?\d+)$/i.exec(text);
  if (power) return Number(`${power[1] ?? "1"}e${power[2]}`);
  const fraction = /^([^/]+)\/([^/]+)$/.exec(text);
  if (fraction) {
    const [above, below] = [evaluate(fraction[1]!), evaluate(fraction[2]!)];
    return above === null || below === null || below === 0 ? null : above / below;
  }
  return null;
}

/** A power of ten that survives copying: 10⁻⁶. */
export function power10(exponent: number): string {
  const sign = exponent < 0 ? "⁻" : "";
  return `10${sign}${[...String(Math.abs(exponent))].map((d) => SUPERSCRIPT[Number(d)]).join("")}`;
}

export type Bound = "near" | "up" | "down";

/** Rounds to significant digits; an upper bound is rounded up and a lower bound down, so that what is read is true. */
export function roundTo(value: number, digits: number, bound: Bound): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const nearest = Number(value.toPrecision(digits));
  if (bound === "near" || nearest === value) return nearest;
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - digits + 1);
  if (bound === "up" && nearest < value) return Number((nearest + unit).toPrecision(digits));
  if (bound === "down" && nearest > value) return Number((nearest - unit).toPrecision(digits));
  return nearest;
}

/** Shows a number with sensible digits: 0.5621, 12 345, 2.5 × 10⁻⁷, ∞. */
export function show(value: number | null | undefined, digits = 4, bound: Bound = "near"): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const rounded = roundTo(value, digits, bound);
  const size = Math.abs(rounded);
  if (rounded === 0) return "0";
  if (size >= 1e7 || size < 1e-3) {
    const [mantissa, exponent] = rounded.toExponential(digits - 1).split("e") as [string, string];
    const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
    const scale = power10(Number(exponent));
    return (short === "1" ? scale : short === "-1" ? `-${scale}` : `${short} × ${scale}`).replace("-", "−");
  }
  const whole = Math.floor(Math.log10(size)) + 1;
  const text = rounded.toFixed(Math.max(0, Math.min(12, digits - whole)));
  return group(text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace("-", "−");
}

/** A whole number with every digit, in groups of three. */
export const showWhole = (value: number): string => group(value.toFixed(0)).replace("-", "−");

export function showPercent(value: number, digits = 3, bound: Bound = "near"): string {
  return `${show(value * 100, digits, bound)}%`;
}

function group(text: string): string {
  const [whole, rest] = text.split(".") as [string, string | undefined];
  const grouped = whole.replace(/^-/, "").length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}

/** An exact decimal amount, digit for digit: 0.00001 becomes 10⁻⁵, 0.0000012 becomes 1.2 × 10⁻⁶, 3.9992 stays. */
export function showAmount(text: string): string {
  const small = /^0\.(000+)([1-9]\d*)$/.exec(text);
  if (!small) return group(text);
  const [first, rest] = [small[2]![0]!, small[2]!.slice(1)];
  const scale = power10(-small[1]!.length - 1);
  return first === "1" && rest === "" ? scale : `${first}${rest && `.${rest}`} × ${scale}`;
}

/** Typesets the numbers in a sentence of the library: 1e-06 becomes 10⁻⁶, 2.5e-07 becomes 2.5 × 10⁻⁷, e^4 becomes e⁴. */
export function typeset(sentence: string): string {
  const powers = sentence.replace(/\be\^(\d+)(?!\d|\.\d)/g, (_, power: string) => `e${power10(Number(power)).slice(2)}`);
  return powers.replace(/(?<![\w.])(\d+(?:\.\d+)?)e([+-]?\d+)(?!\w)/g, (_, mantissa: string, exponent: string) => {
    const scale = power10(Number(exponent));
    return mantissa === "1" ? scale : `${mantissa} × ${scale}`;
  });
}
