import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Download } from "../components/Download";
import { Field } from "../components/Field";
import { Notice } from "../components/Notice";
import { Plot } from "../components/Plot";
import { Stat } from "../components/Stat";
import { Table } from "../components/Table";
import { Trouble } from "../components/Trouble";
import { addressStore } from "../lib/address";
import { get, post } from "../lib/api";
import type { FieldSpec, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { OVER, useJob } from "../lib/job";
import { show, showWhole, typeset } from "../lib/numbers";
import { Problem } from "../lib/types";

const PARTICIPATIONS = [
  ["balls-in-bins", "balls in bins: one random round of each epoch, the same one throughout"],
  ["b-min-sep", "b-min-sep: by a coin, unless among the last b − 1 rounds"],
  ["cyclic-poisson", "cyclic Poisson: a random slot, then a coin each time it comes"],
] as const;
const STRATEGIES = [
  ["independent", "independent in every round (C = I)"],
  ["square-root", "correlated: banded square root"],
  ["optimal", "correlated: banded, optimal for prefix sums"],
] as const;

const SPECS: readonly FieldSpec[] = [
  { name: "participation", label: "Who takes part", kind: "choice", initial: "balls-in-bins", choices: PARTICIPATIONS },
  { name: "strategy", label: "Noise", kind: "choice", initial: "independent", choices: STRATEGIES },
  { name: "bins", label: "Rounds in an epoch", symbol: "b", kind: "whole", initial: "16", least: 1, most: 1024, hint: "bins, slots, least distance" },
  { name: "epochs", label: "Epochs", kind: "whole", initial: "1", least: 1, most: 100 },
  { name: "probability", label: "Chance to join", symbol: "p", kind: "real", initial: "0.5", above: 0, most: 1, hint: "when allowed" },
  { name: "bands", label: "Bands of C", kind: "whole", initial: "8", least: 1, most: 512, hint: "entries in a column" },
  { name: "noise_multiplier", label: "Noise multiplier", symbol: "σ", kind: "real", initial: "1", above: 0, most: 1000, hint: "of Z; columns of C have norm 1" },
  { name: "epsilon", label: "At", symbol: "ε", kind: "real", initial: "1", least: 0, most: 100 },
  { name: "failure", label: "Chance to be wrong", kind: "real", initial: "1e-6", above: 0, below: 1 },
  { name: "samples", label: "Draws each way", kind: "whole", initial: "1000000", least: 1000, most: 50_000_000 },
];

function rule(values: Values): Record<string, string> {
  const spaced = values.participation !== "balls-in-bins" && values.strategy !== "independent";
  if (spaced && (values.bands as number) > (values.bins as number)) return { bands: "must be at most b here: the columns of one participation may not overlap" };
  return {};
}

interface Seen {
  draws: number;
  hits: number;
  lower: number;
  upper: number;
}

interface Snapshot {
  state: "running" | "paused" | "done" | "failed" | "cancelled";
  ask: Record<string, string | number>;
  of: number;
  exact: number | null;
  directions: Record<string, Seen>;
  interval?: { lower: number; upper: number; estimate: number; method: string; assumptions: string[] };
  says?: string;
}

const TITLES = { running: "Drawing", paused: "Paused", done: "Certified", failed: "Refused", cancelled: "Cancelled" };

export function MonteCarlo() {
  const store = useMemo(addressStore, []);
  const form = useForm(SPECS, store, rule);
  const [id, setId] = useState<string | null>(null);
  const [known, setKnown] = useState<(Snapshot & { id: string })[]>([]);
  const [trouble, setTrouble] = useState<Problem | null>(null);
  const { seen, lost } = useJob<Snapshot>(id && `certificates/${id}`);
  const trail = useRef<{ id: string | null; past: Record<string, Seen[]> }>({ id: null, past: {} });

  const look = useCallback(async (): Promise<void> => {
    try {
      setKnown((await get<{ certificates: (Snapshot & { id: string })[] }>("certificates")).certificates);
    } catch {
      setKnown([]); // the page works without the list; what matters says so itself
    }
  }, []);
  useEffect(() => void look(), [look, id, seen?.state]);
  useEffect(() => {
    // a reload, or a new server on the same folder, takes up what is not over
    const open = known.find((each) => each.state === "running");
    if (id === null && open) setId(open.id);
  }, [known]);

  if (trail.current.id !== id) trail.current = { id, past: {} };
  for (const [way, now] of Object.entries(seen?.directions ?? {})) {
    const past = (trail.current.past[way] ??= []);
    if (now.draws > (past.at(-1)?.draws ?? 0)) past.push(now);
  }

  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setTrouble(null);
    try {
      await work();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
      form.refuse(problem.errors);
      setTrouble(problem);
    }
  };
  const begin = (): void => {
    if (form.values !== null) void act(async () => setId((await post<{ id: string }>("certificates", form.values)).id));
  };
  const steer = (verb: string) => () => void act(() => post(`certificates/${id}/${verb}`, {}));
  const running = seen !== null && !OVER.includes(seen.state);
  const shown = (name: string): boolean =>
    form.errors[name] !== undefined ||
    (name === "bands" ? form.raw.strategy !== "independent" : name === "probability" ? form.raw.participation !== "balls-in-bins" : true);

  return (
    <div class="stack">
      <Card>
        <p>
          Correlated noise and hidden participation have no closed form. Here draws decide which δ holds at ε, with the interval narrowing as you
          watch. For balls in bins over independent noise delta is also computed without draws, to about ten digits, to compare with.
        </p>
        <form
          aria-label="Certificate"
          onSubmit={(e) => {
            e.preventDefault();
            begin();
          }}
        >
          <div class="two">
            <Field form={form} name="participation" />
            <Field form={form} name="strategy" />
          </div>
          <div class="pair roomy">
            {SPECS.slice(2)
              .filter((spec) => shown(spec.name))
              .map((spec) => (
                <Field key={spec.name} form={form} name={spec.name} />
              ))}
          </div>
          <div class="buttons">
            <button type="submit" class="main" disabled={form.values === null || seen?.state === "running"}>
              Draw
            </button>
          </div>
        </form>
        <p class="method">
          Settle on the question, draw once, and keep what comes: asking again until an interval looks good voids its confidence. A certificate that
          is paused, or cut off with the server, goes on with the entropy that it began with.
        </p>
        {(trouble ?? lost) && <Trouble problem={(trouble ?? lost)!} />}
      </Card>
      {seen && id && <Certificate id={id} seen={seen} past={trail.current.past} running={running} steer={steer} />}
      <Known known={known} shown={id} open={setId} />
    </div>
  );
}

function named(ask: Snapshot["ask"]): string {
  const correlated = ask.strategy === "independent" ? "independent noise" : `${ask.strategy} noise, ${ask.bands} bands`;
  const chance = ask.participation === "balls-in-bins" ? "" : `, p = ${show(Number(ask.probability))}`;
  return `${PARTICIPATIONS.find(([name]) => name === ask.participation)?.[1].split(":")[0]}, b = ${ask.bins}, ${ask.epochs} ${ask.epochs === 1 ? "epoch" : "epochs"}${chance}, ${correlated}, σ = ${show(Number(ask.noise_multiplier))}, ε = ${show(Number(ask.epsilon))}`;
}

interface Shown {
  id: string;
  seen: Snapshot;
  past: Record<string, Seen[]>;
  running: boolean;
  steer: (verb: string) => () => void;
}

function Certificate({ id, seen, past, running, steer }: Shown) {
  const drawn = Object.values(seen.directions).reduce((sum, way) => sum + way.draws, 0);
  const trails = Object.entries(past).filter(([, each]) => each.length > 1);
  const furthest = Math.max(1, ...trails.flatMap(([, each]) => each.map((now) => now.draws)));
  return (
    <Card title={TITLES[seen.state]}>
      <p class="method">{named(seen.ask)}</p>
      <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${show((50 * drawn) / seen.of, 3)} % drawn`}>
        <rect class="rail" width="100" height="6" />
        <rect class="spent" width={seen.state === "done" ? 100 : Math.min(100, (50 * drawn) / seen.of)} height="6" />
      </svg>
      {seen.says && <Notice grade="void">{seen.says}</Notice>}
      <div role="status">
        {seen.interval && (
          <div class="headline">
            <p class="claim">
              <span>δ ≤ </span>
              <b>{show(seen.interval.upper, 4, "up")}</b>
            </p>
            <p class="beside">
              at least {show(seen.interval.lower, 4, "down")}, best guess {show(seen.interval.estimate)}; {typeset(seen.interval.assumptions.at(-1) ?? "")}
            </p>
          </div>
        )}
      </div>
      <div class="buttons">
        {seen.state === "paused" && (
          <button type="button" class="main" onClick={steer("resume")}>
            Resume
          </button>
        )}
        {seen.state === "running" && (
          <button type="button" onClick={steer("pause")}>
            Pause
          </button>
        )}
        {running && (
          <button type="button" class="quiet" onClick={steer("cancel")}>
            Cancel
          </button>
        )}
        {seen.state === "done" && (
          <Download path={`certificates/${id}/evidence.json`} name={`montecarlo-${id}.json`} kind="application/json">
            Download the evidence
          </Download>
        )}
      </div>
      {drawn > 0 && (
        <dl class="stats narrow">
          <Stat label="Draws" note={`of ${showWhole(2 * seen.of)}, both directions`}>
            {showWhole(drawn)}
          </Stat>
          {Object.entries(seen.directions).map(([way, s]) => (
            <Stat key={way} label={`${way}: δ between`} note={`${showWhole(s.hits)} hits`}>
              {show(s.lower, 3, "down")} and {show(s.upper, 3, "up")}
            </Stat>
          ))}
          {seen.exact !== null && (
            <Stat label="Without draws" note="worse direction; an estimate">
              {show(seen.exact, 5)}
            </Stat>
          )}
        </dl>
      )}
      {trails.length > 0 && (
        <Plot
          title="The interval of each direction, valid however often one looks; the worse one counts"
          x={{ title: "draws in that direction" }}
          y={{ title: "δ", log: true }}
          series={[
            ...trails.flatMap(([way, each]) =>
              (["upper", "lower"] as const).map((end) => ({
                name: `${way}: ${end}`,
                look: way === "remove" ? ("claim" as const) : ("other" as const),
                points: each.map((now) => [now.draws, now[end]] as const),
              })),
            ),
            ...(seen.exact === null ? [] : [{ name: "without draws", look: "estimate" as const, points: [[1, seen.exact], [furthest, seen.exact]] as const }]),
          ]}
        />
      )}
    </Card>
  );
}

function Known({ known, shown, open }: { known: (Snapshot & { id: string })[]; shown: string | null; open: (id: string) => void }) {
  const others = known.filter((each) => each.id !== shown && each.state !== "cancelled");
  if (others.length === 0) return null;
  return (
    <Card title="Certificates this server keeps">
      <Table
        prose
        caption="Begun and finished, newest first"
        columns={[{ title: "of what" }, { title: "state", tight: true }, { title: "δ at most", number: true }, { title: "look" }]}
        rows={others.map((each) => [
          named(each.ask),
          each.state,
          each.interval ? show(each.interval.upper, 4, "up") : "–",
          <button type="button" class="quiet" aria-label={`Open ${named(each.ask)}`} onClick={() => open(each.id)}>
            Open
          </button>,
        ])}
      />
    </Card>
  );
}
