// Parse numbers as people write them, and format them.

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export type Parsed = { ok: true; value: number } | { ok: false; error: string };

const bad = (error: string): Parsed => ({ ok: false, error });

const GAP = "[ \\u00a0\\u2009\\u202f_]";
const GROUPED = new RegExp(`^([+-]?)([1-9]\\d{0,2}(?:${GAP}\\d{3})+)(\\.\\d+)?$`);
const PLAIN = /^[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const POWER = /^(?:([+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+))[×x*·])?10(?:\^|\*\*)([+-]?\d+)$/i;
const GROUPS = /^[+-]?[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*$/;
const TYPED_GROUP = /^[+-]?[1-9]\d{0,2}\.\d\d0$/; // a decimal fraction would not end in 0
const LONGEST = 200; // characters

/** Normalize exponents of ten, minus signs, and spaces around operators. */
function plainDigits(text: string): string {
  const digits = (raised: string): string => raised.replace("⁻", "-").replace("⁺", "+").replace(/[⁰¹²³⁴⁵⁶⁷⁸⁹]/g, (digit) => String(SUPERSCRIPT.indexOf(digit)));
  return text
    .replace(/10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g, (_, raised: string) => `10^${digits(raised)}`)
    .replace(/[−–]/g, "-")
    .replace(/\s*(\*\*|[×x*·^/])\s*/g, "$1");
}

/**
 * Parse a number: 1e-6, 10^-6, 10⁻⁶, 1.2×10^-6, 1/50000, 0.000001, 50 000. Ambiguous text is rejected: a point is the
 * decimal point, spaces group digits in threes; commas are rejected, and so is a point that may group digits. The library
 * parses tables by the same grammar (terms/numerals.py); tests/vectors/numerals.json checks both.
 */
export function parseNumber(raw: string, options: { integer?: boolean } = {}): Parsed {
  const integer = options.integer ?? false;
  const given = raw.trim();
  if (given === "") return bad("needs a number");
  const parts = given.length > LONGEST ? [] : plainDigits(given).split("/");
  const [above, below] = parts.map((part) => readPart(part, integer));
  if (typeof above === "object") return above;
  if (typeof below === "object") return below;
  if (above === undefined || parts.length > 2 || below === 0 || Number.isNaN(above) || Number.isNaN(below)) return bad(`is not a number: “${given.slice(0, 40)}”`);
  const value = below === undefined ? above : above / below;
  if (!Number.isFinite(value)) return bad("is too large");
  if (value === 0 && /[1-9]/.test(parts[0]!.split(/[eE×x*·^]/)[0]!)) return bad("is too small");
  if (integer && !Number.isInteger(value)) return bad("must be a whole number");
  if (integer && !Number.isSafeInteger(value)) return bad("is too large");
  return { ok: true, value: value + 0 }; // no negative zero
}

/** Parse a number without a fraction bar; NaN if invalid. Ambiguous text is rejected first. */
function readPart(text: string, integer: boolean): number | Parsed {
  const mark = GROUPS.exec(text)?.[1];
  if (mark !== undefined && (mark === "," || integer || TYPED_GROUP.test(text))) return bad(explainAmbiguity(text, mark, integer));
  if (text.includes(",")) return bad("must be written without a comma: a point begins the decimals, spaces group digits");
  const grouped = GROUPED.exec(text);
  const joined = grouped ? `${grouped[1]}${grouped[2]!.replace(new RegExp(GAP, "g"), "")}${grouped[3] ?? ""}` : text;
  const power = POWER.exec(joined);
  if (!PLAIN.test(joined)) return power ? Number(`${power[1] ?? "1"}e${power[2]}`) : NaN;
  if (integer && joined.includes(".") && !/e/i.test(joined)) return bad("must be a whole number, written without a point");
  return Number(joined);
}

/** Return an error with both readings of one separator; several separators can only group digits. */
function explainAmbiguity(text: string, mark: string, integer: boolean): string {
  const joined = text.replaceAll(mark, "");
  const rule = `must be written without “${mark}”, which can group digits or begin decimals: write ${joined}`;
  if (joined.length + 1 < text.length) return rule;
  const decimals = String(Number(text.replace(mark, ".")));
  return integer && decimals.includes(".") ? rule : `${rule} or ${decimals}`;
}

/** Format a power of ten: 10⁻⁶. */
export function power10(exponent: number): string {
  const sign = exponent < 0 ? "⁻" : "";
  return `10${sign}${[...String(Math.abs(exponent))].map((d) => SUPERSCRIPT[Number(d)]).join("")}`;
}

export type Bound = "near" | "up" | "down";

/** Round to significant digits: upper bounds up and lower bounds down, so the displayed bound holds. */
export function roundTo(value: number, digits: number, bound: Bound): number {
  if (value === 0 || !Number.isFinite(value)) return value;
  const nearest = Number(value.toPrecision(digits));
  if (bound === "near" || nearest === value) return nearest;
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - digits + 1);
  if (bound === "up" && nearest < value) return Number((nearest + unit).toPrecision(digits));
  if (bound === "down" && nearest > value) return Number((nearest - unit).toPrecision(digits));
  return nearest;
}

/** Format a number: 0.5621, 12 345, 2.5 × 10⁻⁷, ∞. */
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
  const digitsBefore = Math.floor(Math.log10(size)) + 1;
  const text = rounded.toFixed(Math.max(0, Math.min(12, digits - digitsBefore)));
  return group(text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace("-", "−");
}

/** Format an integer with all digits, in groups of three. */
export const showInteger = (value: number): string => group(value.toFixed(0)).replace("-", "−");

export function showPercent(value: number, digits = 3, bound: Bound = "near"): string {
  return `${show(value * 100, digits, bound)}%`;
}

function group(text: string): string {
  const [integer, rest] = text.split(".") as [string, string | undefined];
  const grouped = integer.replace(/^-/, "").length > 4 ? integer.replace(/\B(?=(\d{3})+$)/g, "\u202f") : integer;
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}

/** Format an exact decimal amount: 0.00001 becomes 10⁻⁵, 0.0000012 becomes 1.2 × 10⁻⁶, 3.9992 stays. */
export function showAmount(text: string): string {
  const small = /^0\.(000+)([1-9]\d*)$/.exec(text);
  if (!small) return group(text);
  const [first, rest] = [small[2]![0]!, small[2]!.slice(1)];
  const scale = power10(-small[1]!.length - 1);
  return first === "1" && rest === "" ? scale : `${first}${rest && `.${rest}`} × ${scale}`;
}

/** Typeset the numbers in a sentence: 1e-06 becomes 10⁻⁶, 2.5e-07 becomes 2.5 × 10⁻⁷. */
export function typeset(sentence: string): string {
  return sentence.replace(/(?<![\w.])(\d+(?:\.\d+)?)e([+-]?\d+)(?!\w)/g, (_, mantissa: string, exponent: string) => {
    const scale = power10(Number(exponent));
    return mantissa === "1" ? scale : `${mantissa} × ${scale}`;
  });
}
