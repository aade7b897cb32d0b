// The running confidence interval of a simulated delta over the draws, its estimate, and the final interval.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { show, showInteger } from "../lib/numbers";
import type { Look, Seen } from "../pages/MonteCarlo";
import { Table } from "./Table";

interface Props {
  of: number; // planned draws per direction
  ways: readonly (readonly [name: string, seen: Seen])[]; // the larger delta first
  exact: number | null;
  final: { lower: number; upper: number } | null;
}

const H = 300;
const [TOP, BOTTOM] = [16, 44];
const LETTER = 7; // approximate maximum width of a letter, in pixels
const PART = 0.02; // smallest margin above and below, in ln delta

export function ConvergencePlot({ of, ways, exact, final }: Props) {
  const id = useId();
  const figure = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(640); // the drawing has the width of its container, so text keeps its size
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(260, Math.round(entry!.contentRect.width))));
    watch.observe(figure.current!);
    return () => watch.disconnect();
  }, []);
  const [[name, worse], ...rest] = ways as [readonly [string, Seen], ...(readonly [string, Seen])[]];
  const trail = worse.trail;
  const first = trail[0]!;
  // the larger delta counts; the other direction is drawn where it comes close
  const [low, high] = range([first.upper, first.lower > 0 ? first.lower : first.estimate / 10, final?.upper, exact ?? undefined]);
  const near = rest.filter(([, seen]) => seen.upper > low);
  const wide = width > 520;
  const ticks = roundNumbers(low, high);
  const left = 24 + LETTER * Math.max(...ticks.map((tick) => show(tick, 3).length));
  const lineLabels = [
    { delta: (final ?? worse).upper, says: `δ ≤ ${show((final ?? worse).upper, 4, "up")}${final ? "" : " so far"}`, look: "claim" },
    { delta: worse.estimate, says: "estimate", look: "estimate" },
    ...(exact === null ? [] : [{ delta: exact, says: "exact value", look: "estimate" }]),
  ];
  const right = width - (wide ? 22 + LETTER * Math.max(...lineLabels.map(({ says }) => says.length)) : 14);
  const from = Math.log(first.draws * 0.92);
  const x = (draws: number): number => left + ((Math.log(draws) - from) / Math.max(1e-9, Math.log(of) - from)) * (right - left);
  const y = (delta: number): number => TOP + ((Math.log(high) - Math.log(Math.max(delta, low))) / (Math.log(high) - Math.log(low))) * (H - TOP - BOTTOM);
  const shape = (looks: readonly Look[]): string => `M${looks.map((each) => `${x(each.draws)} ${y(each.upper)}`).join("L")}L${looks.toReversed().map((each) => `${x(each.draws)} ${y(each.lower)}`).join("L")}Z`;
  const edge = (looks: readonly Look[], of_: (look: Look) => number): string => `M${looks.map((each) => `${x(each.draws)} ${y(of_(each))}`).join("L")}`;
  const labels = spreadLabels(lineLabels.map((each) => ({ ...each, at: y(each.delta) })), 15);
  const words = `Direction ${name}: after ${showInteger(first.draws)} draws δ was between ${show(first.lower, 4, "down")} and ${show(first.upper, 4, "up")}, after ${showInteger(worse.draws)} between ${show(worse.lower, 4, "down")} and ${show(worse.upper, 4, "up")}.${final ? ` The final interval: between ${show(final.lower, 4, "down")} and ${show(final.upper, 4, "up")}.` : ""}`;
  return (
    <figure class="plot narrowing" ref={figure}>
      <figcaption id={`${id}-title`}>
        Confidence interval for δ{rest.length > 0 ? ` in the direction with the larger δ (${name})` : ` (direction ${name})`}
      </figcaption>
      <svg viewBox={`0 0 ${width} ${H}`} role="img" aria-labelledby={`${id}-title`} aria-describedby={`${id}-words`}>
        {ticks.map((tick) => (
          <g key={tick} class="tick">
            <line x1={left} x2={right} y1={y(tick)} y2={y(tick)} />
            <text x={left - 8} y={y(tick) + 4} text-anchor="end">
              {show(tick, 3)}
            </text>
          </g>
        ))}
        {decades(first.draws, of, wide ? 6 : 3).map((tick) => (
          <text key={tick} x={x(tick)} y={H - BOTTOM + 18} text-anchor={x(tick) > width - 4 * showInteger(tick).length ? "end" : "middle"}>
            {showInteger(tick)}
          </text>
        ))}
        <text class="axis" x={(left + right) / 2} y={H - 6} text-anchor="middle">
          draws in this direction
        </text>
        <text class="axis" x={12} y={TOP + 4}>
          δ
        </text>
        <line class="settled" x1={x(of)} x2={x(of)} y1={TOP} y2={H - BOTTOM} />
        {near.map(([way, seen]) => (
          <path key={way} class="beyond" d={shape(seen.trail)} />
        ))}
        <path class="shade" d={shape(trail)} />
        <path class="line" d={edge(trail, (look) => look.upper)} />
        <path class="line lower" d={edge(trail, (look) => look.lower)} />
        <path class="line guess" d={edge(trail, (look) => look.estimate)} />
        {exact !== null && <line class="line estimate" x1={left} x2={right} y1={y(exact)} y2={y(exact)} />}
        <circle class="dot" cx={x(worse.draws)} cy={y(worse.upper)} r="3.5" />
        {final && <path class="final" d={`M${x(of) - 7} ${y(final.upper)}h14M${x(of)} ${y(final.upper)}V${y(final.lower)}M${x(of) - 7} ${y(final.lower)}h14`} />}
        {wide &&
          labels.map(({ at, says, look }) => (
            <text key={says} class={`lineLabels ${look}`} x={right + 14} y={at + 4}>
              {says}
            </text>
          ))}
      </svg>
      {!wide && (
        <p class="legend" aria-hidden="true">
          {[["", "δ at most"], ["guess", "estimate"], ...(exact === null ? [] : [["estimate", "exact value"]])].map(([look, says]) => (
            <span key={says}>
              <svg viewBox="0 0 26 8">
                <path class={`line ${look}`} d="M1 4H25" />
              </svg>
              {says}
            </span>
          ))}
        </p>
      )}
      <p id={`${id}-words`} class="reading">
        {words}
        {near.length === 0 && rest.map(([way, seen]) => ` Direction ${way} has a much smaller δ: at most ${show(seen.upper, 4, "up")}.`)}
      </p>
      <details>
        <summary>Show as a table</summary>
        {ways.map(([way, seen]) => (
          <Table
            key={way}
            caption={`Direction ${way}: bounds by number of draws`}
            columns={["draws", "hits", "δ at least", "estimate", "δ at most"].map((title) => ({ title, number: true }))}
            rows={seen.trail.map((look) => [showInteger(look.draws), showInteger(look.hits), show(look.lower, 4, "down"), show(look.estimate), show(look.upper, 4, "up")])}
          />
        ))}
      </details>
    </figure>
  );
}

/** Return the range of the positive finite values, with a margin. */
function range(values: readonly (number | undefined)[]): [low: number, high: number] {
  const some = values.filter((each): each is number => each !== undefined && Number.isFinite(each) && each > 0);
  const [least, most] = [Math.min(...some), Math.max(...some)];
  const margin = Math.max(PART, 0.08 * Math.log(most / least));
  return [least * Math.exp(-margin), most * Math.exp(margin)];
}

/** Return about five round numbers in a range; powers of ten if there are enough. */
function roundNumbers(low: number, high: number): number[] {
  if (high / low > 1000) return Array.from({ length: Math.floor(Math.log10(high)) - Math.ceil(Math.log10(low)) + 1 }, (_, i) => Number(`1e${Math.ceil(Math.log10(low)) + i}`)).filter((_, i, all) => i % Math.ceil(all.length / 6) === 0);
  const rough = (high - low) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((each) => each >= rough)!;
  const even = Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, i) => Number(((Math.ceil(low / step) + i) * step).toPrecision(12)));
  return even.filter((tick, i) => i === 0 || Math.log(tick / even[i - 1]!) > 0.07 * Math.log(high / low));
}

/** Return round numbers of draws, 1, 2 or 5 times a power of ten. */
function decades(first: number, last: number, most: number): number[] {
  const all = [1, 2, 5].flatMap((times) => Array.from({ length: 9 }, (_, i) => times * 10 ** i)).filter((each) => each >= first && each <= last).sort((a, b) => a - b);
  const every = Math.ceil(all.length / most);
  return all.filter((_, i) => (all.length - 1 - i) % every === 0);
}

/** Move labels that would overlap. */
function spreadLabels<L extends { at: number }>(labels: readonly L[], gap: number): L[] {
  const sorted = labels.toSorted((a, b) => a.at - b.at).map((each) => ({ ...each }));
  for (let i = 1; i < sorted.length; i++) sorted[i]!.at = Math.max(sorted[i]!.at, sorted[i - 1]!.at + gap);
  return sorted;
}
