import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Card as Panel } from "../components/Card";
import { Copy } from "../components/Copy";
import { fromQuery, toQuery } from "../lib/url-state";
import type { Name, Outcome, RequestStatus, Shift, Waiting } from "../lib/game";
import {
  active,
  capOf,
  chanceOf,
  chargeOf,
  decline,
  epsilonOf,
  fits,
  GROUPS,
  LAPSE_COSTS,
  listStatuses,
  multiplierOf,
  NAMES,
  NARROWEST,
  oddsOf,
  outcomes,
  pick,
  PLACES,
  playgroundOf,
  quantile,
  readSeed,
  REQUESTS,
  release,
  SECONDS,
  seedOf,
  spent,
  start,
  STEADY,
  steer,
  tick,
  WRONG_COSTS,
} from "../lib/game";
import { show, showInteger } from "../lib/numbers";

const BEST = "epsilog-desk-best";
const STEP = 1.12; // one press of an arrow key
const BALLS = 20;
const SIGN: Record<RequestStatus, string> = { useful: "●", useless: "✕", lapsed: "·", open: "○" };
const LABELS: Record<RequestStatus, string> = { useful: "useful", useless: "useless", lapsed: "unanswered", open: "open" };
const GLYPH: Record<Name, string> = {
  clinic: "M6 1h4v5h5v4h-5v5H6v-5H1V6h5z",
  school: "M8 1 15 5v1H1V5zM2 7h3v6H2zm4.5 0h3v6h-3zM11 7h3v6h-3zM1 14h14v1H1z",
  city: "M2 3h12v8H2zM3.5 4.5v3H7v-3zm5.5 0v3h3.5v-3zM3 12h3v2H3zm7 0h3v2h-3z",
};

const odds = (nanos: number): string => `${show(oddsOf(nanos), 3, "up")} : 1`;
const of20 = (part: number): string => `${Math.floor(BALLS * part + 1e-9)} of ${BALLS}`;

const storageKey = (words: boolean): string => (words ? `${BEST}-words` : BEST);
const best = (words: boolean): number => {
  try {
    return Number(localStorage.getItem(storageKey(words))) || 0;
  } catch {
    return 0;
  }
};

const addressOf = (seed: string): string => `/game?${toQuery({ seed })}`;

export function Game() {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [seed, setSeed] = useState(() => readSeed(fromQuery(location.search).raw.seed) ?? seedOf(new Date()));
  const [words, setWords] = useState(calm);
  const [shift, setShift] = useState<Shift | null>(null);
  const [paused, setPaused] = useState(false);
  const [record, setRecord] = useState(() => best(calm));
  const now = useRef<Shift | null>(null);
  const board = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLElement>(null);
  const put = useCallback((next: Shift | null) => {
    const closes = next !== null && next.over !== null && now.current?.over === null;
    now.current = next;
    setShift(next);
    if (!closes) return;
    setTimeout(() => end.current?.focus());
    const mode = !Number.isFinite(next.clock);
    if (next.score <= best(mode)) return;
    try {
      localStorage.setItem(storageKey(mode), String(next.score));
    } catch {
      // the game works without storage
    }
    setRecord(next.score);
  }, []);

  const running = shift !== null && shift.over === null && !paused;
  useEffect(() => {
    if (!running || words) return;
    let last = performance.now();
    let frame = 0;
    const step = (time: number): void => {
      const passed = Math.min(0.1, (time - last) / 1000);
      last = time;
      if (now.current) put(tick(now.current, passed));
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [running, words, put]);
  useEffect(() => {
    const hide = (): void => {
      if (document.hidden) setPaused(true);
    };
    document.addEventListener("visibilitychange", hide);
    return () => document.removeEventListener("visibilitychange", hide);
  }, []);

  const begin = (from: string): void => {
    setSeed(from);
    history.replaceState(null, "", addressOf(from));
    put(start(from, words));
    setPaused(false);
    setTimeout(() => {
      board.current?.focus({ preventScroll: true });
      board.current?.scrollIntoView({ block: (board.current?.offsetHeight ?? 0) > 0.7 * innerHeight ? "start" : "nearest" });
    });
  };
  const act = (change: (shift: Shift) => Shift): void => {
    if (running && now.current) put(change(now.current));
  };
  const key = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    if (target.closest("input, a") || event.ctrlKey || event.metaKey || event.altKey) return;
    const wider = (): void => act((old) => steer(old, old.width * STEP));
    const narrower = (): void => act((old) => steer(old, old.width / STEP));
    const acts: Record<string, () => void> = {
      ArrowRight: wider,
      ArrowUp: wider,
      ArrowLeft: narrower,
      ArrowDown: narrower,
      p: () => setPaused((old) => !old),
      Escape: () => setPaused(true),
    };
    if (!target.closest("button")) acts[" "] = acts.Enter = () => act(release);
    const waiting = now.current?.queue.find((each) => String(each.slot) === event.key);
    const found = waiting ? () => act((old) => pick(old, waiting.id)) : acts[event.key];
    if (!found || shift?.over !== null) return;
    event.preventDefault();
    found();
  };
  const today = seedOf(new Date());
  const other = (): string => [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => (byte % 36).toString(36)).join("");

  const rules = (
    <Panel>
      <p class="asked">
        You are the curator of three data sets. Answer requests with <b>enough noise</b> to protect the people in the data, and <b>little enough</b> to be useful.
      </p>
      <p>
        Drag to set the noise, then <b>click</b> or press <b>space</b> to release one of the {BALLS} balls. Inside the zone it earns the request’s
        worth; outside it costs {WRONG_COSTS} times as much. Less noise spends more of the group’s budget, permanently. Select any request by click or{" "}
        <b>number</b>; each unanswered request costs {LAPSE_COSTS}.
      </p>
      <div class="buttons">
        <button type="button" class="main" onClick={() => begin(seed)}>
          {shift === null ? "Start the shift" : "Start again"}
        </button>
        {shift !== null && shift.over === null && (
          <button type="button" onClick={() => setPaused(false)}>
            Resume
          </button>
        )}
        {seed !== today && (
          <button type="button" onClick={() => begin(today)}>
            Today’s shift
          </button>
        )}
        <button type="button" onClick={() => begin(other())}>
          New shift
        </button>
        <button
          type="button"
          class="quiet"
          aria-pressed={words}
          onClick={() => {
            setWords(!words);
            setRecord(best(!words));
            put(null);
          }}
        >
          Text mode {words ? "on" : "off"}
        </button>
      </div>
      <p class="method">
        {seed === today ? "Today’s shift, the same for all players" : `Shift ${seed}`}: share it by its URL. {words ? `${STEADY} requests, no clock.` : `${REQUESTS} requests in ${SECONDS} seconds.`}
        {record > 0 && ` Your best score, stored in this browser: ${showInteger(record)}.`}
      </p>
    </Panel>
  );

  return (
    <div class="stack">
      {shift?.over == null && !running && rules}
      {shift && (
        <div ref={board} class="board" tabIndex={0} role="group" aria-label="Release control" onKeyDown={key}>
          {shift.over === null && (
            <>
              <Top shift={shift} pause={() => setPaused(true)} />
              {words ? (
                <Words shift={shift} act={act} />
              ) : (
                <>
                  <Queue shift={shift} choose={(id) => act((old) => pick(old, id))} />
                  <Stage shift={shift} paused={paused} steerTo={(width) => act((old) => steer(old, width))} fire={() => act(release)} />
                </>
              )}
              <Gauges shift={shift} />
            </>
          )}
          <p class="said" role="status">
            {shift.over !== null ? `${shift.over} ${shift.score} points.` : paused ? "Paused." : shift.message}
          </p>
        </div>
      )}
      {shift && shift.over !== null && (
        <>
          <End here={end} shift={shift} words={words} record={record} />
          {rules}
        </>
      )}
      <p class="method">
        All people are fictional. The noise is Laplace, drawn from the seed. A charge is the sensitivity over the noise scale, rounded up to a billionth of ε;
        charges add up, also for adaptively chosen releases.
      </p>
    </div>
  );
}

function Glyph({ name }: { name: Name }) {
  return (
    <svg class="glyph" viewBox="0 0 16 16" aria-hidden="true">
      <path fill-rule="evenodd" d={GLYPH[name]} />
    </svg>
  );
}

function Strip({ shift }: { shift: Shift }) {
  const all = listStatuses(shift);
  const counts = (["useful", "useless", "lapsed"] as const).map((mark) => `${all.filter((each) => each === mark).length} ${LABELS[mark]}`).join(", ");
  return (
    <p class="strip" role="img" aria-label={`Of ${all.length} requests: ${counts}`}>
      {all.map((mark, i) => (
        <i key={i} class={mark}>
          {SIGN[mark]}
        </i>
      ))}
    </p>
  );
}

function Top({ shift, pause }: { shift: Shift; pause: () => void }) {
  return (
    <div class="desk-top">
      <p class="points">
        <b>{showInteger(shift.score)}</b> <small>points</small>
      </p>
      <Strip shift={shift} />
      {Number.isFinite(shift.clock) && (
        <>
          <p class="points">
            <b>{Math.ceil(shift.clock)}</b> <small>s left</small>
          </p>
          <button type="button" class="quiet" onClick={pause}>
            Pause
          </button>
        </>
      )}
    </div>
  );
}

const wants = (each: Waiting): string => `${each.asker}: ${each.question} Of ${GROUPS[each.group].of}, within ${each.tolerance}, worth ${each.worth}${each.most > 1 ? `, sensitivity ${each.most}` : ""}`;

function Queue({ shift, choose }: { shift: Shift; choose: (id: number) => void }) {
  const chosen = active(shift);
  return (
    <ol class="queue" aria-label="Waiting requests">
      {Array.from({ length: PLACES }, (_, i) => shift.queue.find((each) => each.slot === i + 1) ?? i + 1).map((each) =>
        typeof each === "number" ? (
          <li key={`place ${each}`} class="vacant" aria-hidden="true">
            {each}
          </li>
        ) : (
          <li key={each.id}>
            <button type="button" aria-pressed={each === chosen} onClick={() => choose(each.id)}>
              <span class="who">
                <Glyph name={each.group} />
                {each.asker}
                <kbd>{each.slot}</kbd>
              </span>
              <span class="what">
                {each.question} {each.most > 1 && <small>up to {each.most} each</small>}
              </span>
              <span class="need">
                <span class="hidden">of {GROUPS[each.group].of}, within </span>
                <b>±{each.tolerance}</b>
                <span class="hidden">, worth </span>
                <b class="worth">+{each.worth}</b>
              </span>
              <svg class="patience" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                <rect class={each.left < 4 ? "short" : ""} width={(100 * each.left) / each.patience} height="4" />
              </svg>
            </button>
          </li>
        ),
      )}
    </ol>
  );
}

interface Steering {
  shift: Shift;
  paused: boolean;
  steerTo: (width: number) => void;
  fire: () => void;
}

const H = 240;
const LINE = 196; // vertical position of the number line

const radius = (w: number): number => (w > 700 ? 8 : 5.5);

/** The noise as twenty equally likely balls, over the zone of useful answers. */
function Stage({ shift, paused, steerTo, fire }: Steering) {
  const svg = useRef<SVGSVGElement>(null);
  const [w, setW] = useState(640); // the drawing has the width of its container, so text keeps its size
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setW(Math.max(260, Math.round(entry!.contentRect.width))));
    watch.observe(svg.current!);
    return () => watch.disconnect();
  }, []);
  const moved = useRef(true); // a mouse that has not moved since the last release does not fire
  const point = (event: PointerEvent): void => {
    const box = svg.current!.getBoundingClientRect();
    moved.current = true;
    steerTo((Math.abs(event.clientX - box.left - box.width / 2) / box.width) * 2 * (w / (w - 2 * EDGE)));
  };
  const shoot = (): void => {
    if (!moved.current) return;
    moved.current = false;
    fire();
  };
  const request = active(shift);
  const [mid, half] = [w / 2, w / 2 - EDGE];
  const last = shift.answers.at(-1);
  return (
    <svg
      ref={svg}
      class={paused ? "stage dim" : "stage"}
      viewBox={`0 0 ${w} ${H}`}
      role="img"
      aria-label={request ? `${wants(request)}. ${of20(chanceOf(request, multiplierOf(request, shift.width)))} draws are useful. Text mode shows every number.` : "No waiting requests."}
      onPointerMove={point}
      onPointerDown={(event) => event.pointerType !== "mouse" && point(event)}
      onPointerUp={shoot}
    >
      {request && <Balls request={request} width={shift.width} mid={mid} half={half} affordable={fits(shift, request, shift.width)} first={shift.answers.length === 0} />}
      <line class="axis" x1={mid - half} x2={mid + half} y1={LINE} y2={LINE} />
      {last && <ReleasedValue key={last.id} at={mid + half * Math.max(-1, Math.min(1, last.error / GROUPS[last.group].reach))} published={last.published} useful={last.useful} points={last.points} w={w} />}
    </svg>
  );
}

const EDGE = 14;

function Balls({ request, width, mid, half, affordable, first }: { request: Waiting; width: number; mid: number; half: number; affordable: boolean; first: boolean }) {
  const r = radius(2 * mid);
  const { reach } = GROUPS[request.group];
  const multiplier = multiplierOf(request, width);
  const scale = multiplier * request.most;
  const at = (error: number): number => mid + (half * error) / reach;
  const columns = new Map<number, number>();
  const places = Array.from({ length: BALLS }, (_, i) => {
    const error = quantile(scale, (i + 0.5) / BALLS);
    const column = Math.round((at(Math.max(-reach, Math.min(reach, error))) - mid) / (2 * r));
    const level = columns.get(column) ?? 0;
    columns.set(column, level + 1);
    return { x: mid + 2 * r * column, level, useful: Math.abs(error) <= request.tolerance };
  });
  const rise = Math.min(2 * r, (LINE - 66) / Math.max(...columns.values()));
  const [left, right] = [at(-request.tolerance), at(request.tolerance)];
  const [from, to] = [mid - half * width, mid + half * width];
  return (
    <>
      <rect class="zone" x={left} width={right - left} y="34" height={LINE - 34} />
      <path class="goal" d={`M${left} 34V${LINE + 6}M${right} 34V${LINE + 6}`} />
      <text x={mid} y={LINE + 20} text-anchor="middle">
        {right - mid > 34 ? right - mid > 80 && showInteger(request.truth) : `±${request.tolerance}`}
      </text>
      {right - mid > 34 && (
        <>
          <text x={left} y={LINE + 20} text-anchor="middle">
            −{request.tolerance}
          </text>
          <text x={right} y={LINE + 20} text-anchor="middle">
            +{request.tolerance}
          </text>
        </>
      )}
      {places.map(({ x, level, useful }, i) => (
        <circle key={i} class={useful ? "ball useful" : "ball"} cx={x} cy={LINE - r - 1 - level * rise} r={r - 0.7} />
      ))}
      <path class={affordable ? "span" : "span over"} d={`M${from} 18v10M${from} 23H${to}M${to} 18v10`} />
      <path class={affordable ? "grip" : "grip over"} d={`M${from - 10} 23l8 -6v12zM${to + 10} 23l-8 -6v12z`} />
      <text class={affordable ? "told" : "told over"} x={mid} y="13" text-anchor="middle">
        {affordable ? `${of20(chanceOf(request, multiplier))} are useful` : "exceeds the budget"}
      </text>
      {first && right - left > 130 && (
        <text x={mid} y="50" text-anchor="middle">
          useful zone
        </text>
      )}
      {first && (
        <text x={mid} y={H - 6} text-anchor="middle">
          {half > 300 ? "drag: wide protects people, narrow is more useful and costs budget; click to release" : "drag: wide protects, narrow is useful"}
        </text>
      )}
    </>
  );
}

function ReleasedValue({ at, published, useful, points, w }: { at: number; published: number; useful: boolean; points: number; w: number }) {
  return (
    <g class={useful ? "drawn good" : "drawn bad"}>
      <circle cx={at} cy={LINE} r={radius(w) + 2} />
      <text x={Math.max(60, Math.min(w - 60, at))} y="52" text-anchor="middle">
        {showInteger(published)}: {useful ? `+${points}` : `−${-points}`}
      </text>
    </g>
  );
}

/** The spent budget of each group, with the charge of the next release, up to the cap. */
function Gauges({ shift }: { shift: Shift }) {
  const request = active(shift);
  return (
    <ul class="gauges" aria-label="Spent budget by group">
      {NAMES.map((name) => {
        const [have, cap] = [spent(shift, name), capOf(name)];
        const next = request?.group === name ? chargeOf(multiplierOf(request, shift.width)) : 0;
        const over = have + next > cap;
        const at = (nanos: number): number => Math.min(100, (100 * nanos) / cap);
        return (
          <li key={name} class={next > 0 ? "now" : undefined}>
            <span class="who">
              <Glyph name={name} />
              {name}, {showInteger(GROUPS[name].people)} {GROUPS[name].whom}
            </span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={`${show(epsilonOf(have), 3, "up")} of ${show(GROUPS[name].cap, 3)} epsilon spent`}>
              <rect class="rail" width="100" height="10" />
              <rect class={over ? "next over" : "next"} x={at(have)} width={at(have + next) - at(have)} height="10" />
              <rect class="spent" width={at(have)} height="10" />
            </svg>
            <span class="odds">
              odds ≤ {odds(have)} <small>of {odds(cap)}</small>
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function Words({ shift, act }: { shift: Shift; act: (change: (shift: Shift) => Shift) => void }) {
  const request = active(shift);
  if (request === null) return null;
  const multiplier = multiplierOf(request, shift.width);
  const charge = chargeOf(multiplier);
  const affordable = fits(shift, request, shift.width);
  const part = chanceOf(request, multiplier);
  const left = capOf(request.group) - spent(shift, request.group);
  const noise = show(multiplier * request.most, 3);
  return (
    <>
      <fieldset class="waiting">
        <legend>Waiting requests</legend>
        {shift.queue.map((each) => (
          <div key={each.id} class="flag">
            <input type="radio" id={`asks-${each.id}`} name="asks" checked={each.id === request.id} onChange={() => act((old) => pick(old, each.id))} />
            <label for={`asks-${each.id}`}>
              {wants(each)}; leaves after {each.left} {each.left === 1 ? "release" : "releases"}
            </label>
          </div>
        ))}
      </fieldset>
      <div class="field">
        <label for="steer">Noise</label>
        <input
          id="steer"
          type="range"
          min={Math.log(NARROWEST)}
          max="0"
          step="0.05"
          value={Math.log(shift.width)}
          aria-valuetext={`noise scale ${noise}: ${of20(part)} draws useful; costs epsilon ${show(epsilonOf(charge), 3, "up")} of ${show(epsilonOf(left), 3, "down")} available${affordable ? "" : ", exceeds the budget"}`}
          onInput={(e) => act((old) => steer(old, Math.exp(Number(e.currentTarget.value))))}
        />
      </div>
      <p>
        Laplace noise of scale {noise}: <b>{of20(part)}</b> draws are useful; cost ε = {show(epsilonOf(charge), 3, "up")} of {show(epsilonOf(left), 3, "down")} available{" "}
        {!affordable && <span class="plain-status void">▲ exceeds the budget</span>}
      </p>
      <div class="buttons">
        <button type="button" class="main" onClick={() => act(release)}>
          Release
        </button>
        <button type="button" onClick={() => act(decline)}>
          Decline
        </button>
      </div>
    </>
  );
}

function End({ here, shift, words, record }: { here: { current: HTMLElement | null }; shift: Shift; words: boolean; record: number }) {
  const found = outcomes(shift);
  const line = (): string =>
    [
      `Release control ${shift.seed}${words ? " (text mode)" : ""}: ${shift.score} points`,
      listStatuses(shift).map((mark) => SIGN[mark]).join(""),
      `Odds at most ${found.map((each) => `${odds(each.nanos)} (${each.group})`).join(", ")}`,
      location.origin + addressOf(shift.seed),
    ].join("\n");
  return (
    <section class="card" tabIndex={-1} ref={here} aria-label="Result of the shift">
      <div class="headline">
        <p class="claim scored">
          <b>{showInteger(shift.score)}</b> <span>points</span>
        </p>
        <p class="beside">
          {shift.score > 0 && shift.score >= record ? "Your best so far." : record > 0 ? `Your best is ${showInteger(record)}.` : "A higher score is possible with better protection."}
        </p>
      </div>
      <Strip shift={shift} />
      <h2>Privacy loss by group</h2>
      {found.map((each) => (
        <Did key={each.group} shift={shift} outcome={each} />
      ))}
      <div class="buttons">
        <Copy label="Copy the result" text={line} />
      </div>
    </section>
  );
}

function Did({ shift, outcome }: { shift: Shift; outcome: Outcome }) {
  const { of, cap } = GROUPS[outcome.group];
  const some = outcome.answered > 0;
  return (
    <div class="did">
      <p>
        <Glyph name={outcome.group} /> <b>{of[0]!.toUpperCase() + of.slice(1)}</b>: an attacker’s odds that a given person is in the data{" "}
        {some ? (
          <>
            rose from 1 : 1 to <b class="odds">at most {odds(outcome.nanos)}</b>
          </>
        ) : (
          "stay at 1 : 1"
        )}
        .
      </p>
      <p>
        {outcome.asked} requests, {outcome.answered} answered, {outcome.useful} useful
        {some && <>; every answer is within ±{outcome.furthest} of the true count</>}.{" "}
        {some && (
          <a href={playgroundOf(shift, outcome.group)}>
            Calculation: ε ≤ {show(epsilonOf(outcome.nanos), 4, "up")} of {show(cap, 3)}
          </a>
        )}
      </p>
    </div>
  );
}
