// The trade-off curve: an upper bound on the TPR of any attack, by FPR.

const [WIDE, HIGH, LEFT, RIGHT, BASE, TOP] = [400, 236, 62, 10, 186, 10];

interface Props {
  points: readonly (readonly [fpr: number, tpr: number])[];
  at: readonly [fpr: number, tpr: number];
  says: string;
}

export function Tradeoff({ points, at, says }: Props) {
  const x = (share: number): number => LEFT + share * (WIDE - LEFT - RIGHT);
  const y = (share: number): number => BASE - share * (BASE - TOP);
  const line = points.map(([a, b], i) => `${i === 0 ? "M" : "L"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const middle = points.find(([a]) => a >= 0.42)!;
  const high = at[1] > 0.8; // the label goes below the point instead of next to the curve
  const label = { x: x(at[0]) + 11, y: high ? y(at[1]) + 22 : Math.min(y(at[1]) - 30, y(tprAt(points, 0.22)) - 16) };
  return (
    <svg viewBox={`0 0 ${WIDE} ${HIGH}`} aria-hidden="true">
      {[0, 0.5, 1].map((tick) => (
        <g key={tick} class="tick">
          <line x1={LEFT} x2={WIDE - RIGHT} y1={y(tick)} y2={y(tick)} />
          <text x={LEFT - 7} y={y(tick) + 4} text-anchor="end">
            {tick * 100}%
          </text>
          <text x={x(tick)} y={BASE + 17} text-anchor={tick === 1 ? "end" : "middle"}>
            {tick * 100}%
          </text>
        </g>
      ))}
      <text class="axis" x={x(0.5) + 4} y={HIGH - 10} text-anchor="middle">
        FPR (false alarms)
      </text>
      <text class="axis" transform={`translate(14 ${(TOP + BASE) / 2}) rotate(-90)`} text-anchor="middle">
        identified
      </text>
      <path class="shade" d={`${line}L${x(1)} ${y(0)}L${x(0)} ${y(0)}Z`} />
      <path class="line reference" d={`M${x(0)} ${y(0)}L${x(1)} ${y(1)}`} />
      <path class="line claim" d={line} />
      <text class="name reference" x={x(0.66)} y={y(0.52)}>
        random guess
      </text>
      {middle[1] > 0.75 && (
        <text class="name" x={x(middle[0]) + 12} y={y(middle[1]) + 22}>
          bound for any attack
        </text>
      )}
      {!high && <path class="leader" d={`M${label.x + 2} ${label.y + 5}L${x(at[0]) + 1} ${y(at[1]) - 5}`} />}
      <circle class="dot" cx={x(at[0])} cy={y(at[1])} r="4.5" />
      <text class="name" x={label.x} y={label.y}>
        {says}
      </text>
    </svg>
  );
}

const tprAt = (points: readonly (readonly [number, number])[], share: number): number => points.find(([a]) => a >= share)![1];
