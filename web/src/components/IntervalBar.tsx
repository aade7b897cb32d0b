import { roundTo, show } from "../lib/numbers";
import { bound, left, near } from "../lib/quantities";

interface Props {
  lower: number | null;
  upper: number;
  estimate?: number;
  target?: number | null;
}

/** The certified interval as a band, with the closed form as a tick. */
export function IntervalBar({ lower, upper, estimate, target }: Props) {
  const ends = [upper, estimate ?? 0, target ?? 0].filter(Number.isFinite);
  const top = roundTo(Math.max(...ends, 1e-12) * 1.12, 2, "up");
  if (!Number.isFinite(upper)) return null;
  const at = (x: number): number => Math.min(100, (x / top) * 100);
  const from = at(lower ?? 0);
  const words = [
    lower === null ? `at most ${bound(upper)}` : `between ${left(lower)} and ${bound(upper)}`,
    estimate === undefined ? "" : `; the closed form is ${near(estimate)}`,
  ].join("");
  return (
    <div class="ruler">
      <svg class="bar" viewBox="0 0 100 14" preserveAspectRatio="none" role="img" aria-label={`Epsilon is ${words}`}>
        <line class="rail" x1="0" x2="100" y1="9" y2="9" />
        <rect class={lower === null ? "band half" : "band"} x={from} width={Math.max(0.6, at(upper) - from)} y="5" height="8" />
        <rect class="edge" x={at(upper) - 0.35} width="0.7" y="2" height="12" />
        {estimate !== undefined && Number.isFinite(estimate) && (
          <rect class="estimate" x={at(estimate) - 0.35} width="0.7" y="0" height="14" />
        )}
        {target !== null && target !== undefined && (
          <line class="target" x1={at(target)} x2={at(target)} y1="0" y2="14" />
        )}
      </svg>
      <p class="ends" aria-hidden="true">
        <span>0</span>
        <span>ε = {show(top, 2)}</span>
      </p>
    </div>
  );
}
