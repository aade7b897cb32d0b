// Read numbers as people write them, and format them.

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** What a field's text says. Only a good or noted text has a value; `say` is the reason or the echo. */
export interface Reading<V = number> {
  state: "empty" | "unfinished" | "good" | "noted" | "bad" | "disabled";
  value?: V;
  say: string;
  offers: readonly string[]; // corrections that the reader may choose
}

const GAP = "[ \\u00a0\\u2009\\u202f_]";
const NUMERAL = "[+-]?(?:(?:0|[1-9]\\d*)(?:\\.\\d*)?|\\.\\d+)";
const PLAIN = new RegExp(`^${NUMERAL}(?:e[+-]?\\d+)?$`, "i");
const POWER = new RegExp(`^(?:(${NUMERAL})[×x*·])?10(?:\\^|\\*\\*)([+-]?\\d+)$`, "i");
const SPACED = new RegExp(`^[+-]?[1-9]\\d{0,2}(?:${GAP}\\d{3})+(?:\\.\\d*)?$`);
const COMMAS = /^[+-]?[1-9]\d{0,2}(?:,\d{3})+$/;
const DOTS = /^[+-]?[1-9]\d{0,2}(?:\.\d{3})+$/;
const TYPED_GROUP = /^[+-]?[1-9]\d{0,2}\.\d\d0$/; // a decimal fraction would not end in 0
const SUFFIX = /^([+-]?\d+(?:\.\d+)?) ?([km])$/i;
const BEGUN = new RegExp(`^(?:[+-]?\\.?|${NUMERAL}e[+-]?|${NUMERAL}[×x*·](?:10?)?|(?:${NUMERAL}[×x*·])?10(?:\\^|\\*\\*?|(?=[⁻⁺]))[+⁻⁺-]?)$`, "i");
const BEGUN_GROUP = new RegExp(`^[+-]?[1-9]\\d{0,2}(?:${GAP}\\d{3})*${GAP}\\d{0,2}$`);
const BEGUN_COMMA = /^[+-]?[1-9]\d{0,2}(?:,\d{3})*,\d{0,2}$/;
const LONGEST = 200; // characters

/** Normalize exponents of ten, minus signs, and spaces around operators. */
function plainDigits(text: string): string {
  const digits = (raised: string): string => raised.replace("⁻", "-").replace("⁺", "+").replace(/[⁰¹²³⁴⁵⁶⁷⁸⁹]/g, (digit) => String(SUPERSCRIPT.indexOf(digit)));
  return text
    .replace(/10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g, (_, raised: string) => `10^${digits(raised)}`)
    .replace(/[−–]/g, "-")
    .replace(/\s*(\*\*|[×x*·^/])\s*/g, "$1");
}

const good = (value: number): Reading => ({ state: "good", value, say: "", offers: [] });
const noted = (value: number): Reading => ({ state: "noted", value, say: `reads as ${withCommas(value)}`, offers: [] });
const unfinished = (say: string): Reading => ({ state: "unfinished", say, offers: [] });
export const bad = (say: string, ...offers: readonly string[]): Reading<never> => ({ state: "bad", say, offers: [...new Set(offers)] });

/**
 * Read a number in one way or not at all: 1e-6, 10^-6, 10⁻⁶, 1.2×10^-6, .5, 0.000001, 50 000; whole numbers also 50,000.
 * A dot in a whole number is refused, as is a comma in any other. The library reads tables and commands by a grammar that
 * differs in commas, fractions and `2.000` (terms/numerals.py); tests/vectors/numerals.json checks both.
 */
export function readNumber(raw: string, { integer = false } = {}): Reading {
  const given = raw.trim();
  if (given === "") return { state: "empty", say: "Enter a number.", offers: [] };
  if (given.length > LONGEST) return bad("Too long.");
  const text = plainDigits(given);
  const read = (integer ? readWithDots(text) : readCommas(text)) ?? readOther(text, integer) ?? readPlain(text, integer);
  return { ...read, offers: read.offers.filter((offer) => readNumber(offer, { integer }).value !== undefined) };
}

/** A dot in a whole number groups digits or begins decimals: both readings are offered, neither is taken. */
function readWithDots(text: string): Reading | null {
  if (!/^[+-]?\d*\.[\d.]*$/.test(text)) return null;
  if (/^[+-]?\d*\.$/.test(text)) return unfinished("Whole numbers only.");
  const [whole, decimals, ...more] = text.split(".") as [string, string, ...string[]];
  const exact = more.length === 0 && /^0*$/.test(decimals) && whole !== "" ? [whole] : [];
  if (DOTS.test(text)) return bad("This reads two ways.", text.replaceAll(".", ","), ...exact);
  const value = Number(text);
  return bad("Whole numbers only.", ...(Number.isFinite(value) ? [withCommas(Math.floor(value)), withCommas(Math.ceil(value))] : []));
}

/** A comma in a number that is not whole begins decimals or groups digits. */
function readCommas(text: string): Reading | null {
  if (!text.includes(",")) return null;
  if (/^[+-]?\d*,$/.test(text)) return unfinished("Use a decimal point.");
  const [point, joined] = [text.replace(",", "."), text.replaceAll(",", "")];
  if (COMMAS.test(text)) return bad("This reads two ways.", joined, ...(PLAIN.test(point) ? [String(Number(point))] : []));
  return bad("Use a decimal point.", ...(/^[+-]?\d*,\d+$/.test(text) ? [point] : COMMAS.test(text.split(".")[0]!) && PLAIN.test(joined) ? [joined] : []));
}

/** Other spellings that are refused: 60k, 1/3, 007. */
function readOther(text: string, integer: boolean): Reading | null {
  const suffixed = SUFFIX.exec(text);
  if (suffixed) return bad("Write it out.", (integer ? withCommas : String)(Number(`${suffixed[1]}e${/k/i.test(suffixed[2]!) ? 3 : 6}`)));
  if (text.includes("/")) return bad("Write a decimal number.");
  if (/^[+-]?0\d/.test(text)) return bad("Drop the first zeros.", text.replace(/^([+-]?)0+(?=\d)/, "$1"));
  return null;
}

function readPlain(text: string, integer: boolean): Reading {
  const grouped = SPACED.test(text) || (integer && COMMAS.test(text));
  const joined = grouped ? text.replace(new RegExp(`${GAP}|,`, "g"), "") : text;
  const power = POWER.exec(joined);
  if (!power && !PLAIN.test(joined)) {
    if (integer && BEGUN_COMMA.test(text)) return unfinished("Commas group three digits.");
    return BEGUN.test(text) || BEGUN_GROUP.test(text) ? unfinished("Not a number yet.") : bad("Not a number.");
  }
  const value = Number(power ? `${power[1] ?? "1"}e${power[2]}` : joined) + 0; // no negative zero
  if (!Number.isFinite(value)) return bad("Too large.");
  if (value === 0 && /[1-9]/.test(power?.[1] ?? joined.split(/e/i)[0]!)) return bad("Too small.");
  if (value === 0 && power && !power[1]) return bad("Too small.");
  if (integer && !Number.isInteger(value)) return bad("Whole numbers only.");
  if (integer && !Number.isSafeInteger(value)) return bad("Too large.");
  return (Math.abs(value) >= 1000 && Math.abs(value) < 1e15 && !text.includes(",")) || TYPED_GROUP.test(text) ? noted(value) : good(value);
}

/** Return both readings of an amount such as 2.000, which are refused where no echo suffices; null for other texts. */
export const twoReadings = (text: string): readonly string[] | null => (TYPED_GROUP.test(text) ? [text.replace(".", ""), String(Number(text))] : null);

/** A limit or an echo: 50,000; 0.5; 10⁻⁹. */
export const withCommas = (value: number): string =>
  value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e15) ? value.toLocaleString("en-US", { maximumSignificantDigits: 17 }) : show(value, 15);

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

/** Format a number: 0.5621, 12,345, 2.5 × 10⁻⁷, ∞. */
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
  const grouped = integer.replace(/\B(?=(\d{3})+$)/g, ",");
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
