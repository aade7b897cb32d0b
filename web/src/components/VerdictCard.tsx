import type { Budget, Card } from "../lib/verdict-pair";
import { loadMessages, sentence, typeset } from "../lib/messages";
import { show } from "../lib/numbers";
import { SimulationBanner } from "./SimulationBanner";

void loadMessages(); // a card shows many: they arrive beside its figures

const [ACROSS, SPACING, OF] = [50, 10, 1000];

/** A dot is a line without length, with a round end. */
const dots = (from: number, to: number): string => {
  let path = "";
  for (let i = from; i < to; i++) path += `M${(i % ACROSS) * SPACING + 5} ${Math.floor(i / ACROSS) * SPACING + 5}h0`;
  return path;
};

function Thousand({ title, note, guessed, found }: { title: string; note: string; guessed: number; found: number }) {
  return (
    <figure>
      <figcaption>
        <b>{title}</b>
        <span>{note}</span>
      </figcaption>
      <svg viewBox="0 0 500 200" role="img" aria-label={`${title}: ${note}`}>
        <path class="guessed" d={dots(0, guessed)} />
        <path class="found" d={dots(guessed, found)} />
        <path class="safe" d={dots(found, OF)} />
      </svg>
    </figure>
  );
}

/** A sentence with its count of 1,000 marked. */
function Headline({ text }: { text: string }) {
  const [before, count, after] = text.split(/(\d[\d,]* of 1,000 [^.,]*|nearly every [^.]*)/);
  return (
    <h2 class="big">
      {before}
      {count && <em>{count}</em>}
      {after}
    </h2>
  );
}

/** A hash by its first digits; the card's text has all. */
const shorten = (line: string): string => line.replace(/([0-9a-f]{16})[0-9a-f]{48}\.?/, "$1…");

const SUSPICIONS: Record<string, string> = { "0.5": "1 in 2", "0.1": "1 in 10", "0.01": "1 in 100", "0.001": "1 in 1,000" };

/** One verdict card. The hash shows only while the figures are those of the shown inputs. */
export function VerdictCard({ card, settled }: { card: Card; settled: boolean }) {
  const { found, guessed, posterior, prior } = card;
  const [guessing, ...basis] = card.notes.map(typeset);
  const open = posterior >= 0.999;
  return (
    <article class={settled ? "card verdict-card" : "card verdict-card busy"} aria-busy={!settled}>
      {card.banner.length > 0 && <SimulationBanner />}
      <header>
        <Headline text={sentence(card.headline)} />
        <p class="lede">
          {guessing} {basis.join(" ")}
        </p>
      </header>
      <div class="thousands">
        <Thousand title={`1,000 ${card.units} in the data`} note={`${found} picked out, ${found - guessed} through the release`} guessed={guessed} found={found} />
        <Thousand title={`1,000 ${card.units} outside it`} note={`${guessed} wrongly accused, as the attacker chose`} guessed={guessed} found={guessed} />
      </div>
      <section class="suspicion" aria-label="Odds">
        <div>
          <b>{SUSPICIONS[String(prior)] ?? `${show(100 * prior)}%`}</b>
          <span>suspicion before</span>
        </div>
        <span aria-hidden="true">→</span>
        <div class="after">
          <b>{open ? "over 99.9%" : `${show(100 * posterior, 3, "up")}%`}</b>
          <span>{open ? "cannot be ruled out" : "at most, once that attack accuses you"}</span>
        </div>
        <p>{typeset(card.highest).replaceAll(" × ", "\u00a0×\u00a0")}</p>
      </section>
      <section class="unprotected">
        <h3>Not protected</h3>
        <ul>
          {card.unprotected.map((line) => (
            <li key={sentence(line)}>{sentence(line)}</li>
          ))}
        </ul>
      </section>
      <section class="published">
        <h3>Next to published epsilons</h3>
        <PublishedInRows card={card} />
        <PublishedInLines card={card} />
        <p>Each at its publisher’s own delta. Compare within a row only.</p>
      </section>
      <footer>
        <b>{typeset(card.claim)}</b>
        {card.origin.map((line) => (
          <span key={sentence(line)}>{shorten(sentence(line))}</span>
        ))}
        {card.sha256 === undefined ? (
          <span>Computed in this browser</span>
        ) : (
          <>
            <span>{card.date}</span>
            <span>{card.engine}</span>
            <span>
              SHA-256 <code title={settled ? card.sha256 : undefined}>{settled ? `${card.sha256.slice(0, 16)}…` : "–"}</code>
            </span>
          </>
        )}
      </footer>
    </article>
  );
}

interface Placed extends Budget {
  x: number;
  left: boolean;
  lane: number;
}

const [LEAST, MOST] = [0.1, 100];

/** Place labels beside their dots, in as few lanes as keep them apart. */
function place(row: readonly Budget[], at: (epsilon: number) => number, width: number): Placed[] {
  const lanes: [number, number][][] = [];
  return row.map((one) => {
    const x = at(one.epsilon);
    const long = (one.name.length + String(one.epsilon).length + 1) * 6.4 + 12;
    const left = x + long > width;
    const [from, to] = left ? [x - long, x + 6] : [x - 6, x + long];
    let lane = 0;
    while (lanes[lane]?.some(([a, b]) => from < b && to > a)) lane++;
    (lanes[lane] ??= []).push([from, to]);
    return { ...one, x, left, lane };
  });
}

const positionIn = (width: number) => (epsilon: number): number => 12 + ((Math.log10(Math.max(LEAST, Math.min(MOST, epsilon))) + 1) / 3) * (width - 24);

const describeBudgets = (card: Card): string => `This epsilon, ${show(card.epsilon, 3, "up")}, beside published ones: ${card.published.map((one) => `${one.name} ${one.epsilon}`).join(", ")}`;

const capitalize = (kind: string): string => kind[0]!.toUpperCase() + kind.slice(1);

/** The rows of each kind of unit. */
const byKind = (card: Card): { kind: string; row: Budget[] }[] => [...new Set(card.published.map((one) => one.protects))].map((kind) => ({ kind, row: card.published.filter((one) => one.protects === kind) }));

/** The card's own epsilon as a line through all rows, and the axis below them. */
function Frame({ card, width, bottom }: { card: Card; width: number; bottom: number }) {
  const at = positionIn(width);
  const mine = at(card.epsilon);
  return (
    <>
      <line class="mine" x1={mine} x2={mine} y1={16} y2={bottom} />
      <text class="mine" x={Math.min(width - 46, Math.max(46, mine))} y={12} text-anchor="middle">
        this one: {show(card.epsilon, 3, "up")}
      </text>
      <line class="axis" x1={12} x2={width - 12} y1={bottom} y2={bottom} />
      {[0.1, 1, 10, 100].map((tick) => (
        <text key={tick} x={at(tick)} y={bottom + 18} text-anchor={tick === LEAST ? "start" : tick === MOST ? "end" : "middle"}>
          {tick === LEAST ? "epsilon 0.1" : tick}
        </text>
      ))}
    </>
  );
}

/** This epsilon on one line with those of published programs, one row for each kind of unit. */
function PublishedInRows({ card }: { card: Card }) {
  const width = 900;
  let y = 22;
  const rows = byKind(card).map(({ kind, row }) => {
    const placed = place(row, positionIn(width), width);
    const top = y;
    y += 30 + 19 * (1 + Math.max(...placed.map((one) => one.lane)));
    return { kind, placed, top };
  });
  return (
    <svg class="wide" viewBox={`0 0 ${width} ${y + 26}`} role="img" aria-label={describeBudgets(card)}>
      <Frame card={card} width={width} bottom={y} />
      {rows.map(({ kind, placed, top }) => (
        <g key={kind}>
          <text class="kind" x={12} y={top + 12}>
            {capitalize(kind)}
          </text>
          {placed.map((one) => (
            <g key={one.name}>
              <circle cx={one.x} cy={top + 30 + 19 * one.lane} r={4.5} />
              <text x={one.left ? one.x - 8 : one.x + 8} y={top + 34 + 19 * one.lane} text-anchor={one.left ? "end" : "start"}>
                {one.name} <tspan>{one.epsilon}</tspan>
              </text>
            </g>
          ))}
        </g>
      ))}
    </svg>
  );
}

/** The same on a phone: each program has a line of its own, its name above it. */
function PublishedInLines({ card }: { card: Card }) {
  const width = 300;
  let y = 22;
  const rows = byKind(card).map(({ kind, row }) => {
    const top = y;
    y += 26 + 34 * row.length;
    return { kind, row, top };
  });
  return (
    <svg class="narrow" viewBox={`0 0 ${width} ${y + 26}`} role="img" aria-label={describeBudgets(card)}>
      {rows.flatMap(({ row, top }) => row.map((one, i) => <line key={one.name} class="rail" x1={12} x2={width - 12} y1={top + 48 + 34 * i} y2={top + 48 + 34 * i} />))}
      <Frame card={card} width={width} bottom={y} />
      {rows.map(({ kind, row, top }) => (
        <g key={kind}>
          <text class="kind" x={12} y={top + 16}>
            {capitalize(kind)}
          </text>
          {row.map((one, i) => (
            <g key={one.name}>
              <text x={12} y={top + 40 + 34 * i}>
                {one.name}
              </text>
              <text x={width - 12} y={top + 40 + 34 * i} text-anchor="end">
                <tspan>{one.epsilon}</tspan>
              </text>
              <circle cx={positionIn(width)(one.epsilon)} cy={top + 48 + 34 * i} r={4.5} />
            </g>
          ))}
        </g>
      ))}
    </svg>
  );
}
