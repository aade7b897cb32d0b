import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Download } from "../components/Download";
import { Field } from "../components/Field";
import { FieldFold } from "../components/Fold";
import { ConvergencePlot } from "../components/ConvergencePlot";
import { Notice } from "../components/Notice";
import { Table } from "../components/Table";
import { ErrorNotice } from "../components/ErrorNotice";
import { type Message, sentence, typeset } from "../lib/messages";
import { urlStore } from "../lib/url-state";
import { get, post } from "../lib/api";
import type { FieldSpec, Values } from "../lib/form";
import { useForm } from "../lib/form";
import { OVER, useJob } from "../lib/job-stream";
import { PARAMETERS } from "../lib/openapi";
import { makeFields } from "../lib/parameter-spec";
import { show, showInteger } from "../lib/numbers";
import { Problem } from "../lib/types";

const PARTICIPATIONS = [
  ["balls-in-bins", "balls in bins: one random round per epoch, the same in each epoch"],
  ["b-min-sep", "b-min-sep: with probability p, unless in one of the last b − 1 rounds"],
  ["cyclic-poisson", "cyclic Poisson: a random slot, then with probability p in each cycle"],
] as const;
const STRATEGIES = [
  ["independent", "independent per round (C = I)"],
  ["square-root", "correlated: banded square root"],
  ["optimal", "correlated: banded, optimal for prefix sums"],
] as const;

const SPECS: readonly FieldSpec[] = makeFields(PARAMETERS.MonteCarloRequest, {
  participation: { hint: "", choices: PARTICIPATIONS },
  strategy: { label: "Noise", hint: "", choices: STRATEGIES },
  bands: { label: "Bands", hint: "rounds that share noise" },
  bins: { label: "Rounds in an epoch", symbol: "b", hint: "also the bins, or the least distance" },
  epochs: { hint: "" },
  probability: { label: "Sampling probability", symbol: "p", hint: "per eligible round" },
  noise_multiplier: { symbol: "σ", hint: "of Z; columns of C have norm 1" },
  epsilon: { symbol: "ε", hint: "" },
  failure: { label: "Error probability", hint: "of the simulation’s bound" },
  samples: { label: "Draws", hint: "with and without one unit, each", initial: "1000000" },
});

function rule(values: Values): Record<string, string> {
  const spaced = values.participation !== "balls-in-bins" && values.strategy !== "independent";
  if (spaced && (values.bands as number) > (values.bins as number)) return { bands: "must be at most b, so that columns of one participation do not overlap" };
  return {};
}

export interface Look {
  draws: number;
  hits: number;
  lower: number;
  upper: number;
  estimate: number;
}

export interface Seen extends Look {
  trail: Look[]; // spaced looks, including the first and the last
}

interface Snapshot {
  state: "running" | "paused" | "done" | "failed" | "cancelled";
  ask: Record<string, string | number>;
  of: number;
  exact: number | null;
  born: { provenance: string; plan: string } | null; // the journal's first line
  directions: Record<string, Seen>;
  interval?: { lower: number; upper: number; estimate: number; method: Message; assumptions: Message[] };
  message?: string;
}

const TITLES = { running: "Drawing", paused: "Paused", done: "Evidence complete", failed: "Refused", cancelled: "Cancelled" };

const CERTAINTY = ["failure", "samples"];

export function MonteCarlo() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store, rule);
  const [id, setId] = useState<string | null>(null);
  const [known, setKnown] = useState<(Snapshot & { id: string })[]>([]);
  const [failure, setFailure] = useState<Problem | null>(null);
  const { seen, lost } = useJob<Snapshot>(id && `montecarlo/${id}`);

  const look = useCallback(async (): Promise<void> => {
    try {
      setKnown((await get<{ runs: (Snapshot & { id: string })[] }>("montecarlo")).runs);
    } catch {
      setKnown([]); // the page works without the list
    }
  }, []);
  useEffect(() => void look(), [look, id, seen?.state]);
  useEffect(() => {
    // after a reload, or on a new server with the same folder, follow the one that runs
    const open = known.find((each) => each.state === "running");
    if (id === null && open) setId(open.id);
  }, [known]);

  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setFailure(null);
    try {
      await work();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("Unexpected error", String(error));
      form.refuse(problem.errors);
      setFailure(problem);
    }
  };
  const begin = (): void => {
    if (form.values !== null) void act(async () => setId((await post<{ id: string }>("montecarlo", form.values)).id));
  };
  const steer = (verb: string) => () => void act(() => post(`montecarlo/${id}/${verb}`, {}));
  const running = seen !== null && !OVER.includes(seen.state);
  const matters = (name: string): boolean =>
    name === "bands" ? form.raw.strategy !== "independent" : name === "probability" ? form.raw.participation !== "balls-in-bins" : true;

  return (
    <div class="stack">
      <Card>
        <p class="lead">No formula covers correlated noise together with hidden participation. This page simulates such a run and bounds δ at the ε that you choose.</p>
        <p>More draws bring the upper and the lower bound closer. Balls in bins with independent noise also have an exact δ, shown for comparison.</p>
        <form
          aria-label="Monte Carlo run"
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
              .filter((spec) => !CERTAINTY.includes(spec.name))
              .map((spec) => (
                <Field key={spec.name} form={form} name={spec.name} when={matters(spec.name)} />
              ))}
          </div>
          <FieldFold title="Draws and confidence" form={form} names={CERTAINTY} />
          <div class="buttons">
            <button type="submit" class="main" disabled={form.values === null || seen?.state === "running"}>
              Start the simulation
            </button>
          </div>
        </form>
        <p class="method">
          Run once, and keep the result. Repeating a run until the bound looks good makes its confidence void. A run that was paused continues with the same random draws.
        </p>
        {(failure ?? lost) && <ErrorNotice problem={(failure ?? lost)!} />}
      </Card>
      {seen && id && <Evidence id={id} seen={seen} running={running} steer={steer} />}
      <RunList known={known} shown={id} open={setId} />
    </div>
  );
}

function describeRequest(ask: Snapshot["ask"]): string {
  const correlated = ask.strategy === "independent" ? "independent noise" : `${ask.strategy} noise, ${ask.bands} bands`;
  const chance = ask.participation === "balls-in-bins" ? "" : `, p = ${show(Number(ask.probability))}`;
  return `${PARTICIPATIONS.find(([name]) => name === ask.participation)?.[1].split(":")[0]}, b = ${ask.bins}, ${ask.epochs} ${ask.epochs === 1 ? "epoch" : "epochs"}${chance}, ${correlated}, σ = ${show(Number(ask.noise_multiplier))}, ε = ${show(Number(ask.epsilon))}`;
}

interface EvidenceProps {
  id: string;
  seen: Snapshot;
  running: boolean;
  steer: (verb: string) => () => void;
}

const SOURCES: Record<string, string> = { entropy: "128 bits from the operating system", nonce: "a public nonce", chosen: "a chosen seed (simulation)" };

function Evidence({ id, seen, running, steer }: EvidenceProps) {
  const drawn = Object.values(seen.directions).reduce((sum, way) => sum + way.draws, 0);
  const failure = Number(seen.ask.failure);
  const ways = Object.entries(seen.directions).sort(([, a], [, b]) => b.upper - a.upper);
  return (
    <Card title={TITLES[seen.state]}>
      <p class="method">{describeRequest(seen.ask)}</p>
      {seen.message && <Notice grade="void">{seen.message}</Notice>}
      <div role="status">
        {seen.interval && (
          <div class="headline">
            <p class="claim">
              <span>δ ≤ </span>
              <b>{show(seen.interval.upper, 4, "up")}</b>
            </p>
            <p class="beside">
              at least {show(seen.interval.lower, 4, "down")}, estimate {show(seen.interval.estimate)}; {typeset(sentence(seen.interval.assumptions.at(-2) ?? ""))}
            </p>
          </div>
        )}
      </div>
      {ways.length > 0 && <ConvergencePlot of={seen.of} ways={ways} exact={seen.exact} final={seen.interval ?? null} />}
      {ways.length > 0 && (
        <p>
          The band holds at all draws simultaneously, except with probability {show(failure)}, so you may look at any time. It only shows progress.
          {seen.interval ? " The result is the tighter interval at its end: " : " Claim only the result at the end, a tighter interval: "}
          its number of draws was fixed in advance, and it has the same failure probability.
        </p>
      )}
      <Provenance seen={seen} drawn={drawn} failure={failure} />
      {seen.interval && <p class="method">Assumption: {typeset(sentence(seen.interval.assumptions.at(-1) ?? ""))}.</p>}
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
          <Download path={`montecarlo/${id}/evidence.json`} name={`montecarlo-${id}.json`} kind="application/json">
            Download the evidence
          </Download>
        )}
      </div>
    </Card>
  );
}

/** The provenance of the evidence, step by step. */
function Provenance({ seen, drawn, failure }: { seen: Snapshot; drawn: number; failure: number }) {
  const steps: [done: boolean, title: string, says: string][] = [
    [true, "Planned", `${showInteger(seen.of)} draws per direction, δ at ε = ${show(Number(seen.ask.epsilon))}, failure probability ${show(failure)}`],
    [
      seen.born !== null,
      "Seeded",
      seen.born === null
        ? "entropy from the operating system is stored in the journal before the first draw"
        : `${SOURCES[seen.born.provenance] ?? seen.born.provenance}, stored in the journal before the first draw, for plan ${seen.born.plan.slice(0, 12)}…`,
    ],
    [drawn >= 2 * seen.of, "Drawn", `${showInteger(drawn)} of ${showInteger(2 * seen.of)}; the journal stores every count`],
    [seen.state === "done", "Finished", seen.state === "done" ? "one run, one result, regardless of interruptions" : "after all draws: one run, one result, regardless of interruptions"],
  ];
  return (
    <ol class="birth">
      {steps.map(([done, title, says]) => (
        <li key={title} class={done ? "done" : undefined}>
          <b>{title}</b>
          <span class="hidden">{done ? " (done)" : " (not yet)"}</span> <span>{says}</span>
        </li>
      ))}
    </ol>
  );
}

function RunList({ known, shown, open }: { known: (Snapshot & { id: string })[]; shown: string | null; open: (id: string) => void }) {
  const others = known.filter((each) => each.id !== shown && each.state !== "cancelled");
  if (others.length === 0) return null;
  return (
    <Card title="Stored runs">
      <Table
        prose
        caption="Running and finished, newest first"
        columns={[{ title: "parameters" }, { title: "state", tight: true }, { title: "δ at most", number: true }, { title: "action" }]}
        rows={others.map((each) => [
          describeRequest(each.ask),
          each.state,
          each.interval ? show(each.interval.upper, 4, "up") : "–",
          <button type="button" class="quiet" aria-label={`Open ${describeRequest(each.ask)}`} onClick={() => open(each.id)}>
            Open
          </button>,
        ])}
      />
    </Card>
  );
}
