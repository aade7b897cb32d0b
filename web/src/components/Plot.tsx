// A line chart in SVG: styled by CSS, readable by pointer and keyboard, and also available as a table.
// Lines are labeled at their ends, or in a legend if the labels would take too much width.

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { show } from "../lib/numbers";
import { Table } from "./Table";

export interface Series {
  name: string;
  label?: string; // a shorter name, for the end of the line
  look: "claim" | "lower" | "second" | "estimate" | "other" | "step" | "bar" | "cap" | "reference";
  points: readonly (readonly [x: number, y: number])[];
  stairs?: boolean; // each value holds from the previous point on, as for an increasing bound
  ends?: boolean; // the line ends at its last point
}

export interface Axis {
  title: string;
  log?: boolean;
  tight?: boolean; // may start above 0
  whole?: boolean; // integer ticks only
}

interface Props {
  title: string;
  x: Axis;
  y: Axis;
  series: readonly Series[];
  band?: readonly [number, number] | null; // series indices to shade between
  height?: number;
}

const TOP = 12;
const BOTTOM = 40;
const LETTER = 7.4; // approximate maximum width of a letter, in pixels
const LINE = 14; // smallest distance of two labels, in pixels

export function Plot({ title, x, y, series, band, height = 280 }: Props) {
  const id = useId();
  const svg = useRef<SVGSVGElement>(null);
  const figure = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(640); // the drawing has the width of its container, so text keeps its size
  useEffect(() => {
    if (!figure.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(260, Math.round(entry!.contentRect.width))));
    watch.observe(figure.current);
    return () => watch.disconnect();
  }, []);
  const [reading, setReading] = useState<number | null>(null);
  const finite = useMemo(
    () => series.map((s) => ({ ...s, points: s.points.filter(([a, b]) => usable(a, x) && usable(b, y)) })),
    [series, x, y],
  );
  const all = finite.flatMap((s) => s.points);
  const xs = useMemo(() => [...new Set(series.flatMap((s) => s.points.map(([a]) => a)))].sort((a, b) => a - b), [series]);
  if (all.length === 0) return <p class="empty">No finite values to plot.</p>;
  const sy = scale(all.map(([, b]) => b), y, height - BOTTOM, TOP);
  const named = finite.filter((s) => s.points.length > 0).map((s) => ({ ...s, says: s.label ?? s.name }));
  const reach = 14 + LETTER * Math.max(...named.map((s) => s.says.length));
  const direct = reach < 0.34 * width;
  const right = direct ? reach : 16;
  const left = 30 + 7 * Math.max(...sy.ticks.map((tick) => show(tick, 3).length));
  const bars = finite.find((s) => s.look === "bar")?.points ?? [];
  const sides = bars.flatMap(([a]) => [a - 0.6, a + 0.6]);
  const sx = scale([...all.map(([a]) => a), ...sides], { ...x, tight: x.tight || bars.length > 0 }, left, width - right, Math.min(6, Math.max(2, Math.floor((width - left) / 90))));
  const thick = bars.length === 0 ? 0 : Math.max(1, Math.min(48, 0.7 * Math.abs(sx.at(1) - sx.at(0))));
  const path = ({ points, look, stairs, ends }: Series): string => {
    if (stairs) return points.map(([a, b], i) => (i === 0 ? `M${sx.at(a)} ${sy.at(b)}` : `V${sy.at(b)}H${sx.at(a)}`)).join("");
    if (look === "cap") return points.map(([, b]) => `M${left} ${sy.at(b)}H${width - right}`).join("");
    const step = look === "step";
    const drawn = points
      .map(([a, b], i) => `${i === 0 ? "M" : step ? `H${sx.at(a).toFixed(1)}V` : "L"}${i > 0 && step ? sy.at(b).toFixed(1) : `${sx.at(a).toFixed(1)} ${sy.at(b).toFixed(1)}`}`)
      .join("");
    return step && !ends && points.length > 0 ? `${drawn}H${width - right}` : drawn;
  };
  const labels = direct
    ? spreadLabels(
        named.map((s) => {
          const [a, b] = s.points.at(-1)!;
          const on = s.look === "cap" || (s.look === "step" && !s.ends) ? width - right : sx.at(a) + (s.look === "bar" ? thick / 2 : 0);
          return { look: s.look, says: s.says, x: on + 7, y: sy.at(b) };
        }),
        TOP + 4,
        height - BOTTOM,
      )
    : [];
  const shade = band && finite[band[0]] && finite[band[1]] ? [...finite[band[0]]!.points, ...finite[band[1]]!.points.toReversed()] : null;
  const chosen = reading === null ? null : xs[Math.min(reading, xs.length - 1)]!;

  const point = (event: PointerEvent): void => {
    const box = svg.current!.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const near = xs.reduce((best, value, i) => (Math.abs(sx.at(value) - at) < Math.abs(sx.at(xs[best]!) - at) ? i : best), 0);
    setReading(near);
  };
  const key = (event: KeyboardEvent): void => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    setReading((old) => Math.max(0, Math.min(xs.length - 1, (old ?? (move > 0 ? -1 : xs.length)) + move)));
  };
  const read = (a: number): string =>
    `${x.title} ${show(a, 3)}: ` +
    series
      .map((s) => [s.name, s.points.find(([b]) => b === a)?.[1]] as const)
      .filter(([, b]) => b !== undefined)
      .map(([name, b]) => `${name} ${show(b, 3)}`)
      .join(", ");

  return (
    <figure class="plot" ref={figure}>
      <figcaption id={`${id}-title`}>{title}</figcaption>
      <svg
        ref={svg}
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        tabIndex={0}
        aria-labelledby={`${id}-title`}
        aria-describedby={`${id}-read`}
        onPointerMove={point}
        onPointerLeave={() => setReading(null)}
        onKeyDown={key}
        onBlur={() => setReading(null)}
      >
        {sy.ticks.map((tick) => (
          <g key={tick} class="tick">
            <line x1={left} x2={width - right} y1={sy.at(tick)} y2={sy.at(tick)} />
            <text x={left - 8} y={sy.at(tick) + 4} text-anchor="end">
              {show(tick, 3)}
            </text>
          </g>
        ))}
        {sx.ticks.map((tick) => (
          <text key={tick} class="tick" x={sx.at(tick)} y={height - BOTTOM + 18} text-anchor={sx.at(tick) > width - 4 * show(tick, 3).length ? "end" : "middle"}>
            {show(tick, 3)}
          </text>
        ))}
        <text class="axis" x={(left + width - right) / 2} y={height - 4} text-anchor="middle">
          {x.title}
        </text>
        <text class="axis" transform={`translate(13 ${(TOP + height - BOTTOM) / 2})${y.title.length > 2 ? " rotate(-90)" : ""}`} text-anchor="middle">
          {y.title}
        </text>
        {shade && shade.length > 1 && <path class="shade" d={`${path({ name: "", look: "claim", points: shade })}Z`} />}
        {bars.map(([a, b]) => (
          <rect key={a} class="column" x={sx.at(a) - thick / 2} width={thick} y={sy.at(b)} height={Math.max(1, sy.at(0) - sy.at(b))} />
        ))}
        {finite.filter((s) => s.look !== "bar").map((s) => (
          <path key={s.name} class={`line ${s.look}`} d={path(s)} />
        ))}
        {finite.filter((s) => s.points.length < 32 && !["step", "bar", "cap", "reference"].includes(s.look)).flatMap((s) =>
          s.points.map(([a, b]) => <circle key={`${s.name}${a}`} class={`dot ${s.look}`} cx={sx.at(a)} cy={sy.at(b)} r="2.2" />),
        )}
        {labels.map((label) => (
          <text key={label.says} class={`name ${label.look}`} x={label.x} y={label.y + 4}>
            {label.says}
          </text>
        ))}
        {chosen !== null && (
          <line class="cursor" x1={sx.at(chosen)} x2={sx.at(chosen)} y1={TOP} y2={height - BOTTOM} />
        )}
      </svg>
      {!direct && (
        <p class="legend">
          {series.map((s) => (
            <span key={s.name}>
              <svg viewBox="0 0 26 8" aria-hidden="true">
                {s.look === "bar" ? <rect class="column" x="6" width="14" height="8" /> : <path class={`line ${s.look}`} d="M1 4H25" />}
              </svg>
              {s.name}
            </span>
          ))}
        </p>
      )}
      <p id={`${id}-read`} class="reading" aria-live="polite">
        {chosen === null ? "Point, or use arrow keys, to read values." : read(chosen)}
      </p>
      <details>
        <summary>Show as a table</summary>
        <Table
          caption={title}
          columns={[{ title: x.title, number: true }, ...series.map((s) => ({ title: s.name, number: true }))]}
          rows={xs.map((a) => [show(a, 3), ...series.map((s) => show(s.points.find(([b]) => b === a)?.[1], 3))])}
        />
      </details>
    </figure>
  );
}

/** Move overlapping labels by as little as keeps all of them readable. */
export function spreadLabels<T extends { y: number }>(labels: readonly T[], top: number, bottom: number): T[] {
  const placed = labels.map((label) => ({ ...label })).sort((a, b) => a.y - b.y);
  placed.forEach((label, i) => {
    label.y = Math.max(label.y, i === 0 ? top : placed[i - 1]!.y + LINE);
  });
  placed.toReversed().forEach((label, i, up) => {
    label.y = Math.min(label.y, i === 0 ? bottom : up[i - 1]!.y - LINE);
  });
  return placed;
}

const usable = (value: number, axis: Axis): boolean => Number.isFinite(value) && (!axis.log || value > 0);

function scale(values: readonly number[], axis: Axis, from: number, to: number, wanted = 4) {
  const place = axis.log ? Math.log10 : (v: number) => v;
  const least = values.reduce((a, b) => Math.min(a, b));
  const most = values.reduce((a, b) => Math.max(a, b));
  let [low, high] = axis.log ? [place(least), place(most)] : [axis.tight ? least : Math.min(0, least), most];
  if (high - low < 1e-12) [low, high] = [low - 0.5 * (axis.log ? 1 : 0), high + (axis.log ? 0.5 : Math.abs(high) || 1)];
  const upright = to < from;
  if (upright && !axis.log && !axis.tight) high = roundUp(high, low);
  const found = axis.log ? logTicks(low, high, wanted) : linearTicks(low, high, wanted);
  const ticks = axis.whole ? found.filter(Number.isInteger) : found;
  return { ticks, at: (v: number) => from + ((place(v) - low) / (high - low)) * (to - from) };
}

/** Return the next tick above, so that no line touches the top. */
function roundUp(high: number, low: number): number {
  const ticks = linearTicks(low, high, 4);
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : Math.abs(high);
  const top = ticks.at(-1)!;
  return top >= high ? top : top + step;
}

function linearTicks(low: number, high: number, wanted = 5): number[] {
  const rough = (high - low) / wanted;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= rough)!;
  const count = Math.floor((high - low) / step + 1e-9);
  const ticks = Array.from({ length: count + 1 }, (_, i) => Number(((Math.ceil(low / step - 1e-9) + i) * step).toPrecision(12)));
  return ticks.filter((tick) => tick <= high + 1e-9 * step); // rounding up at the low end can pass the high end
}

/** Return powers of ten, with multiples of two and five if there are few; even steps for a narrow range. */
function logTicks(low: number, high: number, wanted: number): number[] {
  const every = Math.max(1, Math.ceil((Math.floor(high) - Math.ceil(low)) / (wanted + 2)));
  const inside = (steps: readonly number[]): number[] => {
    const ticks: number[] = [];
    for (let e = Math.floor(low); e <= high; e += every) ticks.push(...steps.map((m) => Number(`${m}e${e}`)));
    return ticks.filter((t) => Math.log10(t) >= low - 1e-9 && Math.log10(t) <= high + 1e-9);
  };
  const found = [[1], [1, 3], [1, 2, 5]].map(inside).find((ticks) => ticks.length >= 3);
  return found ?? linearTicks(10 ** low, 10 ** high, wanted).filter((t) => t > 0);
}
