// Two densities and a threshold: the bound on the TPR of any attack.

const [WIDE, HIGH, BASE, TOP] = [400, 236, 186, 24];
const MAX_DISTANCE = 7; // in the drawing

const density = (x: number): number => Math.exp((-x * x) / 2);

export function Bells({ mu, threshold, fpr, tpr }: { mu: number; threshold: number; fpr: string; tpr: string }) {
  const far = Math.min(mu, MAX_DISTANCE);
  const [from, to] = [-3.3, Math.max(3.6, far + 3.3)];
  const x = (value: number): number => 6 + ((value - from) / (to - from)) * (WIDE - 12);
  const y = (value: number): number => BASE - value * (BASE - TOP);
  const steps = Array.from({ length: 121 }, (_, i) => from + ((to - from) * i) / 120);
  const bell = (center: number): string => steps.map((s, i) => `${i === 0 ? "M" : "L"}${x(s).toFixed(1)} ${y(density(s - center)).toFixed(1)}`).join("");
  const right = (center: number): string => {
    const beyond = [threshold, ...steps.filter((s) => s > threshold)];
    return `M${x(threshold).toFixed(1)} ${BASE}${beyond.map((s) => `L${x(s).toFixed(1)} ${y(density(s - center)).toFixed(1)}`).join("")}L${x(to).toFixed(1)} ${BASE}Z`;
  };
  const line = x(threshold);
  const near = Math.abs(x(far) - line) < 38;
  const inward = line > WIDE - 60;
  return (
    <svg viewBox={`0 0 ${WIDE} ${HIGH}`} aria-hidden="true">
      <path class="with area" d={right(far)} />
      <path class="without area" d={right(0)} />
      <path class="without" d={bell(0)} />
      <path class="with" d={bell(far)} />
      <line class="base" x1="6" x2={WIDE - 6} y1={BASE} y2={BASE} />
      <line class="alarm" x1={line} x2={line} y1={TOP - 12} y2={BASE + 5} />
      <text class="without" x={x(-0.08)} y={TOP - 8} text-anchor="end">
        without you
      </text>
      <text class="with" x={far < 1 ? x(far + 0.08) : near ? line + (x(far) < line ? -6 : 6) : x(far)} y={TOP - 8} text-anchor={far < 1 ? "start" : near ? (x(far) < line ? "end" : "start") : "middle"}>
        with you
      </text>
      <text class="alarm" x={line} y={BASE + 18} text-anchor={inward ? "end" : "start"}>
        {inward ? "alarm →" : "→ alarm"}
      </text>
      <text class="said" x={WIDE / 2} y={HIGH - 10} text-anchor="middle">
        <tspan class="alarm">{fpr} false alarms</tspan>, <tspan class="with">at most {tpr} identified</tspan>
      </text>
    </svg>
  );
}
