import { useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { ErrorNotice } from "../components/ErrorNotice";
import { Board, type Try } from "../components/game/Board";
import { Check, Result } from "../components/game/Result";
import * as rules from "../lib/game";
import type { Shift } from "../lib/game";
import { newKey, openKey } from "../lib/game-noise";
import { addressOf, pointsOf, record, settle } from "../lib/game-result";
import { showInteger } from "../lib/numbers";
import { Problem } from "../lib/types";
import { fromQuery } from "../lib/url-state";
import "./game.css";

/** A number or mark in this browser's storage; the game works without storage. */
const stored = (name: string): string | null => {
  try {
    return localStorage.getItem(`epsilog-game-${name}`);
  } catch {
    return null;
  }
};
const keep = (name: string, value: string): void => {
  try {
    localStorage.setItem(`epsilog-game-${name}`, value);
  } catch {
    // see above
  }
};

export function Game() {
  const [seed, setSeed] = useState(() => rules.readSeed(fromQuery(location.search).raw.seed) ?? rules.seedOf(new Date()));
  const [words, setWords] = useState(() => matchMedia("(prefers-reduced-motion: reduce)").matches);
  const [clock, setClock] = useState(false);
  const [game, setGame] = useState<Try | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const board = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLElement>(null);
  const playing = game !== null && !game.shift.over;

  const begin = async (from: string): Promise<void> => {
    try {
      const secret = await openKey(newKey());
      const first = stored(`seed-${from}`) === null;
      keep(`seed-${from}`, "started");
      setSeed(from);
      history.replaceState(null, "", addressOf(from));
      setGame({ shift: rules.start(from), secret, first, ends: clock ? Date.now() + 1000 * rules.CLOCK : Infinity, said: "The shift begins." });
      setTimeout(() => {
        board.current?.focus({ preventScroll: true });
        board.current?.scrollIntoView({ block: "start" });
      });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  const put = (shift: Shift, said: string): void => {
    if (!game) return;
    setGame({ ...game, shift, said });
    if (!shift.over) return;
    const points = pointsOf(settle(shift, game.secret.truthOf));
    if (game.first && points > Number(stored("best"))) keep("best", String(points));
    setTimeout(() => end.current?.focus());
  };
  const today = rules.seedOf(new Date());
  const best = Number(stored("best"));

  return (
    <div class="stack">
      {problem && <ErrorNotice problem={problem} />}
      {playing && <Board key={game.secret.key} here={board} game={game} words={words} put={put} />}
      {game?.shift.over && <Result here={end} game={game} />}
      {!playing && (
        <Card>
          <p class="asked">{rules.REQUESTS} people ask for numbers about patients, pupils and riders. The budgets bear six or seven precise answers. Whom do you answer?</p>
          <ul class="limits">
            <li>More noise protects more and costs less. A wrong number costs twice its worth, so it pays from 14 useful draws of 20.</li>
            <li>A number that is published may be handed on, for free, to anybody who asks the same.</li>
            <li>To decline costs nothing. Whether a number was useful shows at the end: a curator who chose by the truth would reveal it.</li>
          </ul>
          <div class="buttons">
            <button type="button" class="main" onClick={() => begin(seed)}>
              {game === null ? "Start the shift" : "Start again, as practice"}
            </button>
            {seed !== today && (
              <button type="button" onClick={() => begin(today)}>
                Today’s shift
              </button>
            )}
            <button type="button" onClick={() => begin(newKey().slice(0, 8))}>
              New shift
            </button>
          </div>
          <div class="options">
            <Option label="Text mode" on={words} set={setWords} />
            <Option label={`Clock, ${rules.CLOCK / 60} minutes`} on={clock} set={setClock} />
          </div>
          <p class="method">
            {seed === today ? "Today’s shift" : `Shift ${seed}`}: its address brings the same requests to your friends. True numbers and noise are new at each try, so only a first try counts.
            {best > 0 && ` Your best first try, stored in this browser: ${showInteger(best)}.`}
          </p>
        </Card>
      )}
      {!playing && <Check text={game ? record(game.shift, game.secret) : ""} />}
      <p class="method">All people are fictional. A charge is the sensitivity over the scale of the Laplace noise, rounded up to a billionth of ε. Charges add up, also for adaptively chosen releases.</p>
    </div>
  );
}

function Option({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label class="option">
      <input type="checkbox" checked={on} onChange={(e) => set(e.currentTarget.checked)} /> {label}
    </label>
  );
}
