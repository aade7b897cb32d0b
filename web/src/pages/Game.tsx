import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Card as Panel } from "../components/Card";
import { Stat } from "../components/Stat";
import type { Card, Judgement, Shift } from "../lib/game";
import { active, BREACHES, BUDGET, CARDS, GAME_DELTA, judge, LEAST_EPSILON, MOST_EPSILON, NOISE_COSTS, noiseOf, pick, release, SECONDS, start, STEADY_CARDS, steer, tick } from "../lib/game";
import { show } from "../lib/numbers";

const BEST = "epsilog-game-best";
const STEP = 1.06; // one press of an arrow key
const MARK: Record<Judgement, { sign: string; word: string; tone: "void" | "good" | "weak" }> = {
  breach: { sign: "▲", word: "too little noise", tone: "void" },
  good: { sign: "●", word: "in range", tone: "good" },
  noisy: { sign: "■", word: "too much noise", tone: "weak" },
};

const best = (): number => {
  try {
    return Number(localStorage.getItem(BEST)) || 0;
  } catch {
    return 0;
  }
};

export function Game() {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [text, setText] = useState(calm);
  const [shift, setShift] = useState<Shift | null>(null);
  const [paused, setPaused] = useState(false);
  const [record, setRecord] = useState(best);
  const now = useRef<Shift | null>(null);
  const board = useRef<HTMLDivElement>(null);
  const put = useCallback((next: Shift) => {
    now.current = next;
    setShift(next);
    if (next.over !== null && next.score > best()) {
      try {
        localStorage.setItem(BEST, String(next.score));
      } catch {
        // a browser that keeps nothing still plays
      }
      setRecord(next.score);
    }
  }, []);

  const running = shift !== null && shift.over === null && !paused;
  useEffect(() => {
    if (!running || text) return;
    let last = performance.now();
    let frame = 0;
    const step = (time: number): void => {
      const passed = Math.min(0.1, (time - last) / 1000);
      last = time;
      if (now.current) put(tick(now.current, passed, Math.random));
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [running, text, put]);
  useEffect(() => {
    const hide = (): void => {
      if (document.hidden) setPaused(true);
    };
    document.addEventListener("visibilitychange", hide);
    return () => document.removeEventListener("visibilitychange", hide);
  }, []);

  const begin = (): void => {
    put(start(text, Math.random));
    setPaused(false);
    setTimeout(() => {
      board.current?.focus({ preventScroll: true });
      board.current?.scrollIntoView({ block: "nearest" });
    });
  };
  const fire = (): void => {
    if (running && now.current) put(release(now.current, Math.random));
  };
  const turn = (factor: number): void => {
    if (running && now.current) put(steer(now.current, now.current.epsilon * factor));
  };
  const key = (event: KeyboardEvent): void => {
    if ((event.target as HTMLElement).closest("button, input")) return;
    const acts: Record<string, () => void> = {
      ArrowRight: () => turn(STEP),
      ArrowUp: () => turn(STEP),
      ArrowLeft: () => turn(1 / STEP),
      ArrowDown: () => turn(1 / STEP),
      " ": fire,
      Enter: fire,
      p: () => setPaused((old) => !old),
      Escape: () => setPaused(true),
    };
    const slot = now.current?.cards.find((card) => String(card.slot) === event.key);
    const act = slot ? () => running && now.current && put(pick(now.current, slot.id)) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  return (
    <div class="stack">
      <Panel>
        {running && !text ? null : (
          <p>
            Cards ask for a release. Steer the ε of the next one with the <b>arrow keys</b> or the pointer, and release with <b>space</b>, a click or by
            lifting the finger when the sign shows a circle: the noise is then in the card's range. Too little noise is a breach, and {BREACHES} end the
            shift; too much is safe and costs {NOISE_COSTS} points. The lowest card is next, unless you pick another by its <b>number</b> or by pressing on
            it. Every release drains the budget of ε = {BUDGET}. <b>P</b> pauses.
          </p>
        )}
        <div class="buttons">
          <button type="button" class="main" onClick={begin}>
            {shift === null ? "Begin the shift" : "Begin again"}
          </button>
          {shift !== null && shift.over === null && (
            <button type="button" onClick={() => setPaused((old) => !old)}>
              {paused ? "Go on" : "Pause"}
            </button>
          )}
          <button
            type="button"
            class="quiet"
            aria-pressed={text}
            onClick={() => {
              setText(!text);
              setShift(null);
              now.current = null;
            }}
          >
            Text mode {text ? "on" : "off"}
          </button>
        </div>
      </Panel>
      {shift && (
        <div ref={board} class="board" tabIndex={0} role="group" aria-label="Release control" onKeyDown={key}>
          <Score shift={shift} record={record} />
          {text ? <Words shift={shift} steerTo={(e) => running && put(steer(shift, e))} fire={fire} /> : <Field shift={shift} paused={paused} steerTo={(e) => running && put(steer(now.current!, e))} fire={fire} choose={(id) => running && put(pick(now.current!, id))} />}
          <p class="said" role="status">
            {shift.over !== null ? `${shift.over} ${shift.score} points from ${shift.released} releases, ${shift.breaches} breaches.` : paused ? "Paused." : shift.said}
          </p>
        </div>
      )}
      <p class="method">
        Noise: Laplace b = Δ/ε; Gaussian by exact calibration at δ = {show(GAME_DELTA)}, the same functions that the calculators use. {SECONDS} seconds and {CARDS} cards; in text
        mode there is no clock and {STEADY_CARDS} cards. The best score stays in this browser.
      </p>
    </div>
  );
}

function Score({ shift, record }: { shift: Shift; record: number }) {
  return (
    <dl class="stats narrow">
      <Stat label="Score">{shift.score}</Stat>
      <Stat label="Streak">{shift.streak}</Stat>
      <Stat label="Breaches">
        {"✕".repeat(shift.breaches)}
        {"·".repeat(BREACHES - shift.breaches)}
      </Stat>
      <Stat label="Budget left">ε {show(Math.max(0, shift.budget), 3, "down")}</Stat>
      <Stat label="Time">{Number.isFinite(shift.clock) ? `${Math.ceil(shift.clock)} s` : "no clock"}</Stat>
      <Stat label="Best">{record}</Stat>
    </dl>
  );
}

function Words({ shift, steerTo, fire }: { shift: Shift; steerTo: (epsilon: number) => void; fire: () => void }) {
  const card = active(shift);
  if (card === null || shift.over !== null) return null;
  const mark = MARK[judge(card, shift.epsilon)];
  return (
    <Panel>
      <p>
        <b>{card.mechanism === "laplace" ? "Laplace" : "Gaussian"}</b> release, sensitivity {card.sensitivity}. Noise must be between {show(card.low, 3, "up")} and{" "}
        {show(card.high, 3, "down")}.
      </p>
      <div class="field">
        <label for="steer">ε of this release</label>
        <input
          id="steer"
          type="range"
          min={Math.log(LEAST_EPSILON)}
          max={Math.log(MOST_EPSILON)}
          step="0.02"
          value={Math.log(shift.epsilon)}
          aria-valuetext={`epsilon ${show(shift.epsilon, 3)}, noise ${show(noiseOf(card, shift.epsilon), 3)}, ${mark.word}`}
          onInput={(e) => steerTo(Math.exp(Number(e.currentTarget.value)))}
        />
      </div>
      <p>
        ε = {show(shift.epsilon, 3)}: noise {show(noiseOf(card, shift.epsilon), 3)}{" "}
        <span class={`verdict-plain ${mark.tone}`}>
          {mark.sign} {mark.word}
        </span>
      </p>
      <button type="button" class="main" onClick={fire}>
        Release
      </button>
    </Panel>
  );
}

const NARROW = matchMedia("(max-width: 40rem)").matches;
const [W, H] = NARROW ? [440, 390] : [900, 420]; // a phone gets a narrower field, not smaller print
const FLOOR = H - 46;
const [CARD_W, CARD_H] = [184, 74];
const placeOf = (card: Card): readonly [number, number] => [8 + card.lane * (W - CARD_W - 76), Math.min(FLOOR - CARD_H, card.height * FLOOR)];

interface Play {
  shift: Shift;
  paused: boolean;
  steerTo: (epsilon: number) => void;
  fire: () => void;
  choose: (id: number) => void;
}

function Field({ shift, paused, steerTo, fire, choose }: Play) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const paints = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const element = canvas.current!;
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (element.width !== W * ratio) [element.width, element.height] = [W * ratio, H * ratio];
    const pen = element.getContext("2d")!;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [ink, soft, line, face, good, weak, wrong] = [...paints.current!.children].map((child) => getComputedStyle(child).color) as [string, string, string, string, string, string, string];
    draw(pen, shift, paused, { ink, soft, line, face, tone: { good, weak, void: wrong } });
  }, [shift, paused]);
  const point = (e: PointerEvent): void => {
    const box = canvas.current!.getBoundingClientRect();
    steerTo(LEAST_EPSILON * (MOST_EPSILON / LEAST_EPSILON) ** Math.min(1, Math.max(0, (e.clientX - box.left) / box.width)));
  };
  /** The card under the pointer, if it is not the one that is next. */
  const other = (e: PointerEvent): Card | undefined => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [((e.clientX - box.left) * W) / box.width, ((e.clientY - box.top) * H) / box.height];
    const under = shift.cards.findLast((each) => {
      const [left, top] = placeOf(each);
      return x >= left && x <= left + CARD_W && y >= top && y <= top + CARD_H;
    });
    return under === active(shift) ? undefined : under;
  };
  const lifted = useRef(false); // whether the finger that is down has picked a card, and so releases nothing when lifted
  const press = (e: PointerEvent): void => {
    const picked = other(e);
    lifted.current = picked !== undefined;
    if (picked) choose(picked.id);
    else if (e.pointerType === "mouse") fire();
    else point(e);
  };
  const card = active(shift);
  const state = card ? `${card.mechanism}, sensitivity ${card.sensitivity}, ${MARK[judge(card, shift.epsilon)].word}` : "no card";
  return (
    <>
      <canvas
        ref={canvas}
        class="field-of-play"
        role="img"
        aria-label={`The lowest card: ${state}. Text mode gives every number.`}
        onPointerMove={point}
        onPointerDown={press}
        onPointerUp={(e) => e.pointerType !== "mouse" && !lifted.current && fire()}
      />
      <span ref={paints} hidden class="paints">
        {["ink", "soft", "line", "card", "good", "estimate", "danger"].map((name) => (
          <i key={name} class={`paint-${name}`} />
        ))}
      </span>
    </>
  );
}

interface Palette {
  ink: string;
  soft: string;
  line: string;
  face: string;
  tone: Record<"good" | "weak" | "void", string>;
}

function draw(pen: CanvasRenderingContext2D, shift: Shift, paused: boolean, palette: Palette): void {
  pen.clearRect(0, 0, W, H);
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, FLOOR);
  pen.lineTo(W, FLOOR);
  pen.stroke();
  const chosen = active(shift);
  for (const card of shift.cards) drawCard(pen, card, card === chosen, shift.epsilon, palette);
  // the epsilon that the next release would spend, on a log scale
  const at = (e: number): number => 16 + ((W - 32) * Math.log(e / LEAST_EPSILON)) / Math.log(MOST_EPSILON / LEAST_EPSILON);
  pen.fillStyle = palette.soft;
  pen.font = "13px system-ui, sans-serif";
  pen.textAlign = "center";
  for (const mark of [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]) pen.fillText(String(mark), Math.min(W - 20, Math.max(20, at(mark))), H - 6);
  pen.strokeStyle = palette.line;
  pen.lineWidth = 6;
  pen.beginPath();
  pen.moveTo(16, H - 30);
  pen.lineTo(W - 16, H - 30);
  pen.stroke();
  pen.fillStyle = palette.ink;
  pen.beginPath();
  pen.arc(at(shift.epsilon), H - 30, 9, 0, 2 * Math.PI);
  pen.fill();
  if (paused) {
    pen.globalAlpha = 0.85;
    pen.fillStyle = palette.face;
    pen.fillRect(0, 0, W, H);
    pen.globalAlpha = 1;
    pen.fillStyle = palette.ink;
    pen.font = "600 40px Georgia, serif";
    pen.fillText("Paused", W / 2, H / 2);
  }
}

/** Writes a line in the largest size, up to the one asked for, that keeps it within a card. */
function write(pen: CanvasRenderingContext2D, text: string, x: number, y: number, size: number, face: string): void {
  const room = CARD_W - 24;
  pen.font = `${size}px ${face}`;
  const width = pen.measureText(text).width;
  if (width > room) pen.font = `${Math.floor((size * room) / width)}px ${face}`;
  pen.fillText(text, x, y);
}

function drawCard(pen: CanvasRenderingContext2D, card: Card, chosen: boolean, epsilon: number, palette: Palette): void {
  const [w, h] = [CARD_W, CARD_H];
  const [x, y] = placeOf(card);
  pen.fillStyle = palette.face;
  pen.strokeStyle = chosen ? palette.ink : palette.line;
  pen.lineWidth = chosen ? 2.5 : 1.5;
  pen.beginPath();
  pen.roundRect(x, y, w, h, 8);
  pen.fill();
  pen.stroke();
  pen.fillStyle = palette.ink;
  pen.textAlign = "left";
  write(pen, `${card.slot}  ${card.mechanism === "laplace" ? "Laplace" : "Gaussian"}, Δ = ${card.sensitivity}`, x + 12, y + 25, 16, "Georgia, serif");
  pen.fillStyle = palette.soft;
  write(pen, `noise ${show(card.low, 3, "up")} to ${show(card.high, 3, "down")}`, x + 12, y + 45, 13, "system-ui, sans-serif");
  if (!chosen) return;
  const noise = noiseOf(card, epsilon);
  const mark = MARK[judge(card, epsilon)];
  pen.fillStyle = palette.tone[mark.tone];
  write(pen, `now ${show(noise, 3)}`, x + 12, y + 63, 13, "system-ui, sans-serif");
  // the ring fills as the noise grows through the range; the shape inside says the same
  const [cx, cy, r] = [x + w + 34, y + h / 2, 25];
  const part = Math.min(1, Math.max(0, Math.log((noise / card.low) * 3) / Math.log((card.high / card.low) * 9)));
  pen.lineWidth = 6;
  pen.strokeStyle = palette.line;
  pen.beginPath();
  pen.arc(cx, cy, r, 0, 2 * Math.PI);
  pen.stroke();
  pen.strokeStyle = palette.tone[mark.tone];
  pen.beginPath();
  pen.arc(cx, cy, r, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * part);
  pen.stroke();
  pen.textAlign = "center";
  pen.font = "20px system-ui, sans-serif";
  pen.fillText(mark.sign, cx, cy + 7);
}
