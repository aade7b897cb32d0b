import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as rules from "../../lib/game";
import type { Name, Request, Shift, Waiting } from "../../lib/game";
import type { Secret } from "../../lib/game-noise";
import { publish, quantile } from "../../lib/game-noise";
import { capital, expectedPoints, shareOf } from "../../lib/game-result";
import { show, showInteger, showPercent } from "../../lib/numbers";
import { Copy } from "../Copy";
import { Glyph } from "./Glyph";

export interface Try {
  shift: Shift;
  secret: Secret;
  first: boolean;
  ends: number; // time in ms; Infinity without a clock
  said: string;
}

const BALLS = 20;
const usefulBalls = (useful: number): number => Math.floor(BALLS * useful + 0.5);
const of20 = (useful: number): string => (usefulBalls(useful) === BALLS ? `over ${BALLS - 1} of ${BALLS}` : `${usefulBalls(useful)} of ${BALLS}`);
const share = (multiplier: number, group: Name): string => showPercent(shareOf(multiplier, group), 2, "up");
const known = (shift: Shift, request: Request): string => {
  const release = rules.knownOf(shift, request);
  return release ? `${showInteger(release.published)} is published, useful in ${of20(rules.chanceOf(request, release.multiplier))}` : "";
};

/** Everything while a shift lasts. The selected request and its noise belong to this component, acts to the rules. */
export function Board({ here, game, words, put }: { here: { current: HTMLDivElement | null }; game: Try; words: boolean; put: (shift: Shift, said: string) => void }) {
  const { shift, secret } = game;
  const [chosen, setChosen] = useState<number | null>(null);
  const [noise, setNoise] = useState<number | null>(null); // a multiplier; null is 19 of 20
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (game.ends === Infinity) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [game.ends]);
  useEffect(() => {
    if (now >= game.ends) put(rules.close(shift), "");
  }, [now]);

  useLayoutEffect(() => {
    if (document.activeElement === document.body) here.current?.querySelector<HTMLElement>("input:checked")?.focus(); // the card that had the focus is gone
  }, [shift]);

  const request = shift.waiting.find(({ id }) => id === chosen) ?? shift.waiting[0]!;
  const choices = rules.choicesOf(request);
  const multiplier = noise ?? rules.steady(request);
  const release = rules.knownOf(shift, request);
  const affordable = rules.fits(shift, request, multiplier);
  const choose = (each: Request | undefined): void => {
    if (!each) return;
    setChosen(each.id);
    setNoise(null);
  };
  const steer = (at: number): void => setNoise(choices[Math.max(0, Math.min(choices.length - 1, at))]!);
  const perform = (done: rules.Act, said: string): void => {
    const next = rules.act(shift, done);
    if (next === shift) return;
    const left = shift.waiting.filter(({ id }) => id !== done.id && !next.waiting.some((each) => each.id === id));
    choose(next.waiting[0]);
    put(next, `${said}${left.map(({ asker }) => ` ${capital(asker)} left.`).join("")}`);
  };
  const decline = (): void => perform({ id: request.id, kind: "decline" }, `Declined: ${request.asker}.`);
  const stuck = !shift.waiting.some((each) => rules.isAnswerable(shift, each));
  const declineAll = (): void => {
    const next = rules.declineUntilAnswerable(shift);
    const declined = next.acts.length - shift.acts.length;
    choose(next.waiting[0]);
    put(next, `${declined} ${declined === 1 ? "request" : "requests"} declined: no budget bears an answer.`);
  };
  const publishIt = (): void => {
    const published = publish(secret, request, multiplier);
    const others = shift.waiting.some((each) => each !== request && rules.sameQuestion(each, request));
    perform(
      { id: request.id, kind: "release", multiplier, published },
      `${showInteger(published)} released to ${request.asker}, for ${share(multiplier, request.group)} of the ${request.group}’s budget.${others ? " You may hand it on to others who ask the same, for free." : ""}`,
    );
  };
  const handOn = (): void => {
    if (!release) return;
    const taught = shift.answers.some((each) => each.free) ? "" : " That is post-processing: a published number reveals nothing more when it is passed on.";
    perform({ id: request.id, kind: "hand-on" }, `${showInteger(release.published)} handed on to ${request.asker}, for free.${taught}`);
  };
  const key = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = choices.findIndex((each) => each >= multiplier);
    const acts: Record<string, () => void> = { r: publishIt, h: handOn, d: decline };
    if (!target.closest("input")) Object.assign(acts, { ArrowRight: () => steer(at + 3), ArrowLeft: () => steer(at - 3) });
    const waiting = shift.waiting[Number(event.key) - 1];
    const found = waiting ? () => choose(waiting) : acts[event.key];
    if (!found) return;
    event.preventDefault();
    found();
  };
  const useful = rules.chanceOf(request, multiplier);
  const same = shift.waiting.filter((each) => each !== request && rules.sameQuestion(each, request));
  const cost = affordable ? share(multiplier, request.group) : "exceeds the budget";

  return (
    <div ref={here} class="board" tabIndex={0} role="group" aria-label="Release control" onKeyDown={key}>
      <div class="desk-top">
        <p class="points">
          <b>{showInteger(Math.round(expectedPoints(shift.answers)))}</b> <small>points expected</small>
        </p>
        <p class="points">
          <b>{rules.REQUESTS - shift.dealt}</b> <small>to come</small>
        </p>
        {game.ends < Infinity && (
          <p class="points">
            <b>{Math.max(0, Math.ceil((game.ends - now) / 1000))}</b> <small>s left</small>
          </p>
        )}
        <button type="button" class="quiet" aria-label="End the shift" onClick={() => put(rules.close(shift), "")}>
          End
        </button>
      </div>
      <fieldset class={words ? "asks words" : "asks"}>
        <legend>Who waits: precision, points, and part of the budget (for 19 of 20)</legend>
        {shift.waiting.map((each, i) => (
          <label key={each.id} class={rules.knownOf(shift, each) ? "ask known" : "ask"}>
            <input type="radio" name="asks" checked={each.id === request.id} aria-label={describe(shift, each)} onChange={() => choose(each)} />
            {words ? <span aria-hidden="true">{describe(shift, each)}</span> : <Face shift={shift} request={each} slot={i + 1} />}
          </label>
        ))}
      </fieldset>
      <p class="upcoming">
        <b>Next, how many:</b>{" "}
        {shift.deck.slice(shift.dealt, shift.dealt + rules.UPCOMING).map((each) => (
          <span key={each.id}>
            <Glyph name={each.group} /> {rules.questionOf(each).slice("How many ".length, -1)} <span class={words ? "" : "hidden"}>({each.group})</span>
          </span>
        ))}
        {shift.dealt === rules.REQUESTS && "nobody else comes"}
      </p>
      {!words && <Stage request={request} multiplier={multiplier} affordable={affordable} />}
      <div class="noise">
        <label for="steer">Noise</label>
        <input
          id="steer"
          type="range"
          min="0"
          max={choices.length - 1}
          value={choices.findIndex((each) => each >= multiplier)}
          aria-valuetext={`scale ${show(multiplier * request.most, 3)}: useful in ${of20(useful)} draws; ${affordable ? `costs ${cost} of the budget` : cost}`}
          onInput={(e) => steer(Number(e.currentTarget.value))}
        />
        <p class="meant">
          <b>{of20(useful)}</b> draws are useful to {request.asker}
          {same.map((each) => `, ${of20(rules.chanceOf(each, multiplier))} to ${each.asker}`).join("")}. {affordable ? <>Costs <b>{cost}</b> of the {request.group}’s budget.</> : <span class="plain-status void">▲ This exceeds the {request.group}’s budget.</span>}{" "}
          {release && <b class="out">{capital(known(shift, request))}.</b>}
        </p>
      </div>
      {stuck && (
        <div class="buttons">
          <button type="button" class="main" onClick={declineAll}>
            Decline all, until somebody can be answered
          </button>
        </div>
      )}
      <div class="buttons acts">
        <button type="button" class={stuck ? undefined : "main"} aria-disabled={!affordable} onClick={publishIt}>
          Release
        </button>
        <button type="button" aria-disabled={!release} onClick={handOn}>
          {release ? `Hand on ${showInteger(release.published)}` : "Hand on"}
        </button>
        <button type="button" onClick={decline}>
          Decline
        </button>
      </div>
      <p class="said" role="status">
        {game.said}
      </p>
      <Gauges shift={shift} group={request.group} next={rules.chargeOf(multiplier)} />
      <p class="method commitment">
        {game.first ? "First try" : "Practice"}. SHA-256 of the key that decides true numbers and noise: <code>{secret.commitment}</code> <Copy label="Copy" text={() => secret.commitment} />
      </p>
    </div>
  );
}

/** Everything that a card says, as sentences. */
function describe(shift: Shift, each: Waiting): string {
  const at = rules.steady(each);
  const cost = rules.fits(shift, each, at) ? `cost ${share(at, each.group)} of the budget` : "exceed the budget";
  const out = known(shift, each);
  return `${capital(each.asker)} asks about the ${each.group}: ${rules.questionOf(each)} Within ±${each.tolerance}, worth ${each.worth}; 19 useful draws of 20 ${cost}.${each.most > 1 ? ` One person counts up to ${each.most} times.` : ""}${out && ` ${out}.`} Leaves after ${each.left} ${each.left === 1 ? "act" : "acts"}.`;
}

function Face({ shift, request, slot }: { shift: Shift; request: Waiting; slot: number }) {
  const at = rules.steady(request);
  const release = rules.knownOf(shift, request);
  return (
    <span class="face" aria-hidden="true">
      <span class="who">
        <Glyph name={request.group} /> {request.asker} <kbd>{slot}</kbd>
      </span>
      <span class="what">
        {rules.questionOf(request)} {request.most > 1 && <small>up to {request.most} each</small>}
      </span>
      <span class="need">
        <b>±{request.tolerance}</b> <b class="worth">+{request.worth}</b> <span class={rules.fits(shift, request, at) ? "price" : "price over"}>{share(at, request.group)}</span>
      </span>
      <span class="out">{release && `${showInteger(release.published)} published: ${of20(rules.chanceOf(request, release.multiplier))}`}</span>
      <svg class="patience" viewBox="0 0 8 1" preserveAspectRatio="none">
        <rect class={request.left < 3 ? "short" : ""} width={request.left} height="1" />
      </svg>
    </span>
  );
}

const H = 160;
const LINE = 132; // vertical position of the number line
const EDGE = 14;

/** The noise as twenty equally likely balls, over the zone of useful answers. */
function Stage({ request, multiplier, affordable }: { request: Request; multiplier: number; affordable: boolean }) {
  const svg = useRef<SVGSVGElement>(null);
  const [w, setW] = useState(640); // the drawing has the width of its container, so text keeps its size
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setW(Math.max(240, Math.round(entry!.contentRect.width))));
    watch.observe(svg.current!);
    return () => watch.disconnect();
  }, []);
  const [mid, half, r] = [w / 2, w / 2 - EDGE, w > 700 ? 8 : 5.5];
  const zone = request.tolerance + 0.5;
  const at = (error: number): number => mid + half * Math.max(-1, Math.min(1, error / (3 * zone)));
  const useful = rules.chanceOf(request, multiplier);
  const span = multiplier * request.most * Math.log(BALLS); // 19 of 20 draws are inside
  const columns = new Map<number, number>();
  const balls = Array.from({ length: BALLS }, (_, i) => {
    const error = (i % 2 === 0 ? 1 : -1) * quantile(multiplier * request.most, 0.5 + (i + 0.5) / BALLS / 2);
    const column = Math.round((at(error) - mid) / (2 * r));
    const level = columns.get(column) ?? 0;
    columns.set(column, level + 1);
    return { x: mid + 2 * r * column, level, useful: i < usefulBalls(useful) };
  });
  const rise = Math.min(2 * r, (LINE - 50) / Math.max(...columns.values()));
  const [left, right, from, to] = [at(-zone), at(zone), at(-span), at(span)];
  return (
    <svg ref={svg} class={affordable ? "stage" : "stage over"} viewBox={`0 0 ${w} ${H}`} role="img" aria-label={`${of20(useful)} draws of the noise are within ±${request.tolerance}`}>
      <rect class="zone" x={left} width={right - left} y="30" height={LINE - 30} />
      <path class="goal" d={`M${left} 30V${LINE + 6}M${right} 30V${LINE + 6}`} />
      {balls.map((ball, i) => (
        <circle key={i} class={ball.useful ? "ball useful" : "ball"} cx={ball.x} cy={LINE - r - 1 - ball.level * rise} r={r - 0.7} />
      ))}
      <path class="span" d={`M${from} 14v10M${from} 19H${to}M${to} 14v10`} />
      <line class="axis" x1={EDGE} x2={w - EDGE} y1={LINE} y2={LINE} />
      <text x={mid} y={LINE + 20} text-anchor="middle">
        truth
      </text>
      <text x={left} y={LINE + 20} text-anchor="middle">
        −{request.tolerance}
      </text>
      <text x={right} y={LINE + 20} text-anchor="middle">
        +{request.tolerance}
      </text>
    </svg>
  );
}

/** The spent budget of each group, with the charge of the next release, up to the cap. */
function Gauges({ shift, group, next }: { shift: Shift; group: Name; next: number }) {
  return (
    <ul class="gauges" aria-label="Spent budget by group">
      {rules.NAMES.map((name) => {
        const [have, cap, more] = [rules.spent(shift, name), rules.capOf(name), name === group ? next : 0];
        const at = (nanos: number): number => Math.min(100, (100 * nanos) / cap);
        return (
          <li key={name} class={more > 0 ? "now" : undefined}>
            <span class="who">
              <Glyph name={name} /> {name}, {showInteger(rules.GROUPS[name].people)} {rules.GROUPS[name].whom}
            </span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect class="rail" width="100" height="10" />
              <rect class={have + more > cap ? "next over" : "next"} x={at(have)} width={at(have + more) - at(have)} height="10" />
              <rect class="spent" width={at(have)} height="10" />
            </svg>
            <span class="odds">{showPercent((cap - have) / cap, 3, "down")} left</span>
          </li>
        );
      })}
    </ul>
  );
}
