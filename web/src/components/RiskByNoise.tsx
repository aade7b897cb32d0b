import { useEffect, useRef, useState } from "preact/hooks";
import { planDPSGD } from "../lib/browser-accountant/dp-sgd";
import { show, showInteger } from "../lib/numbers";
import type { DPSGDRequest } from "../lib/openapi";

const [LOW, HIGH, STOPS] = [0.4, 12, 160]; // of the noise multiplier, on a logarithmic scale
const POINTS = 41;
const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [46, 14, 26, 158, 196];
const TICKS = [0.5, 1, 2, 4, 8];

interface Props {
  ask: DPSGDRequest | null;
  noise: number | null;
  found: number | null; // by the best attack, of 1,000
  set(noise: string): void;
  commit(): void;
}

/** What the best attack finds at each noise, by the browser's bound; the slider sets the noise. */
export function RiskByNoise({ ask, noise, found, set, commit }: Props) {
  const place = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.round(entry!.contentRect.width))));
    watch.observe(place.current!);
    return () => watch.disconnect();
  }, []);
  const points = useCurve(ask);
  const x = (at: number): number => LEFT + ((width - LEFT - RIGHT) * Math.log(at / LOW)) / Math.log(HIGH / LOW);
  const y = (count: number): number => BOTTOM - ((BOTTOM - TOP) * count) / 1000;
  const here = noise !== null && noise > 0 ? Math.min(HIGH, Math.max(LOW, noise)) : null;
  const stop = here === null ? 0 : Math.round((STOPS * Math.log(here / LOW)) / Math.log(HIGH / LOW));
  const late = here !== null && x(here) > width - 90;
  const label = found === null || here === null ? "No result" : `noise ${show(noise, 3)}, at most ${showInteger(found)} of 1,000`;
  return (
    <figure ref={place} class="card risk">
      <figcaption>Picked out of 1,000 examples, at most, by noise multiplier</figcaption>
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} width={width} height={HEIGHT} role="img" aria-label={`The best attack by noise multiplier: ${label}`}>
        {ask && [0, 500, 1000].map((count) => (
          <g key={count}>
            <line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(count)} y2={y(count)} />
            <text x={LEFT - 8} y={y(count) + 4} text-anchor="end">
              {count.toLocaleString("en-US")}
            </text>
          </g>
        ))}
        {ask && TICKS.map((tick) => (
          <text key={tick} x={x(tick)} y={BOTTOM + 20} text-anchor="middle">
            {tick}
          </text>
        ))}
        {ask && (
          <>
            <line class="guess" x1={LEFT} x2={width - RIGHT} y1={y(10)} y2={y(10)} />
            <text x={late ? LEFT + 6 : width - RIGHT} y={y(10) - 6} text-anchor={late ? "start" : "end"}>
              guessing: 10
            </text>
          </>
        )}
        {points.length > 1 && <path class="line" d={`M${points.map(([at, count]) => `${x(at).toFixed(1)} ${y(count).toFixed(1)}`).join("L")}`} />}
        {ask && here !== null && found !== null && (
          <>
            <line class="here" x1={x(here)} x2={x(here)} y1={TOP - 8} y2={BOTTOM} />
            <circle cx={x(here)} cy={y(found)} r="5.5" />
            <text class="value" x={x(here) + (late ? -10 : 10)} y={Math.max(TOP, y(found) - 10)} text-anchor={late ? "end" : "start"}>
              {showInteger(found)}
            </text>
          </>
        )}
      </svg>
      <div class="drag">
        <input
          type="range"
          min="0"
          max={STOPS}
          value={stop}
          disabled={here === null}
          aria-label="Noise multiplier"
          aria-valuetext={label}
          onInput={(e) => set(String(Number((LOW * (HIGH / LOW) ** (Number(e.currentTarget.value) / STOPS)).toPrecision(3))))}
          onChange={commit}
        />
        <span>less noise</span>
        <span>more noise</span>
      </div>
    </figure>
  );
}

/** Compute the browser's bounds point by point, so that typing is not held up; none for a loader that needs the server. */
function useCurve(ask: DPSGDRequest | null): readonly (readonly [noise: number, found: number])[] {
  const run = ask && { ...ask, epsilon: null, clip_norm: 1, noise_multiplier: 1 };
  const key = JSON.stringify(run);
  const [curve, setCurve] = useState<{ key: string; points: [number, number][] }>({ key: "", points: [] });
  useEffect(() => {
    if (run === null) return;
    const points: [number, number][] = [];
    let timer = setTimeout(step, 150);
    function step(): void {
      const at = LOW * (HIGH / LOW) ** (points.length / (POINTS - 1));
      try {
        points.push([at, 1000 * Math.max(0.01, planDPSGD({ ...run!, noise_multiplier: at }).tpr ?? 1)]);
      } catch {
        return setCurve({ key, points: [] });
      }
      if (points.length === POINTS) return setCurve({ key, points });
      timer = setTimeout(step, 0);
    }
    return () => clearTimeout(timer);
  }, [key]);
  return ask === null ? [] : curve.points;
}
