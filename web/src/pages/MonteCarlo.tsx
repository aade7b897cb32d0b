import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { Download } from "../components/Download";
import { Field } from "../components/Field";
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
import { show, showInteger } from "../lib/numbers";
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
  { name: "bins", label: "Rounds in an epoch", symbol: "b", kind: "integer", initial: "16", min: 1, max: 1024, hint: "bins, slots, least distance" },
  { name: "epochs", label: "Epochs", kind: "integer", initial: "1", min: 1, max: 100 },
  { name: "probability", label: "Chance to join", symbol: "p", kind: "real", initial: "0.5", exclusiveMin: 0, max: 1, hint: "when allowed" },
  { name: "bands", label: "Bands of C", kind: "integer", initial: "8", min: 1, max: 512, hint: "entries in a column" },
  { name: "noise_multiplier", label: "Noise multiplier", symbol: "σ", kind: "real", initial: "1", exclusiveMin: 0, max: 1000, hint: "of Z; columns of C have norm 1" },
  { name: "epsilon", label: "At", symbol: "ε", kind: "real", initial: "1", min: 0, max: 100 },
  { name: "failure", label: "Chance to be wrong", kind: "real", initial: "1e-6", exclusiveMin: 0, exclusiveMax: 1 },
  { name: "samples", label: "Draws each way", kind: "integer", initial: "1000000", min: 1000, max: 50_000_000 },
];

function rule(values: Values): Record<string, string> {
  const spaced = values.participation !== "balls-in-bins" && values.strategy !== "independent";
  if (spaced && (values.bands as number) > (values.bins as number)) return { bands: "must be at most b here: the columns of one participation may not overlap" };
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
  trail: Look[]; // looks that lie apart, the first and the last among them
}

interface Snapshot {
  state: "running" | "paused" | "done" | "failed" | "cancelled";
  ask: Record<string, string | number>;
  of: number;
  exact: number | null;
  born: { provenance: string; plan: string } | null; // the journal's first line
  directions: Record<string, Seen>;
  interval?: { lower: number; upper: number; estimate: number; method: Message; assumptions: Message[] };
  says?: string;
}

const TITLES = { running: "Drawing", paused: "Paused", done: "Certified", failed: "Refused", cancelled: "Cancelled" };

export function MonteCarlo() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store, rule);
  const [id, setId] = useState<string | null>(null);
  const [known, setKnown] = useState<(Snapshot & { id: string })[]>([]);
  const [failure, setFailure] = useState<Problem | null>(null);
  const { seen, lost } = useJob<Snapshot>(id && `certificates/${id}`);

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

  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setFailure(null);
    try {
      await work();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
      form.refuse(problem.errors);
      setFailure(problem);
    }
  };
  const begin = (): void => {
    if (form.values !== null) void act(async () => setId((await post<{ id: string }>("certificates", form.values)).id));
  };
  const steer = (verb: string) => () => void act(() => post(`certificates/${id}/${verb}`, {}));
  const running = seen !== null && !OVER.includes(seen.state);
  const matters = (name: string): boolean =>
    name === "bands" ? form.raw.strategy !== "independent" : name === "probability" ? form.raw.participation !== "balls-in-bins" : true;

  return (
    <div class="stack">
      <Card>
        <p>
          Correlated noise and hidden participation have no closed form. Here draws decide which δ holds at ε, and the interval narrows as you
          watch. For balls in bins over independent noise δ is also computed without draws, to about ten digits, to compare with.
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
            {SPECS.slice(2).map((spec) => (
              <Field key={spec.name} form={form} name={spec.name} when={matters(spec.name)} />
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
        {(failure ?? lost) && <ErrorNotice problem={(failure ?? lost)!} />}
      </Card>
      {seen && id && <Certificate id={id} seen={seen} running={running} steer={steer} />}
      <CertificateList known={known} shown={id} open={setId} />
    </div>
  );
}

function describeRequest(ask: Snapshot["ask"]): string {
  const correlated = ask.strategy === "independent" ? "independent noise" : `${ask.strategy} noise, ${ask.bands} bands`;
  const chance = ask.participation === "balls-in-bins" ? "" : `, p = ${show(Number(ask.probability))}`;
  return `${PARTICIPATIONS.find(([name]) => name === ask.participation)?.[1].split(":")[0]}, b = ${ask.bins}, ${ask.epochs} ${ask.epochs === 1 ? "epoch" : "epochs"}${chance}, ${correlated}, σ = ${show(Number(ask.noise_multiplier))}, ε = ${show(Number(ask.epsilon))}`;
}

interface CertificateProps {
  id: string;
  seen: Snapshot;
  running: boolean;
  steer: (verb: string) => () => void;
}

const SOURCES: Record<string, string> = { entropy: "128 bits from the operating system", nonce: "a public nonce", chosen: "a seed chosen by hand: a simulation" };

function Certificate({ id, seen, running, steer }: CertificateProps) {
  const drawn = Object.values(seen.directions).reduce((sum, way) => sum + way.draws, 0);
  const failure = Number(seen.ask.failure);
  const ways = Object.entries(seen.directions).sort(([, a], [, b]) => b.upper - a.upper);
  return (
    <Card title={TITLES[seen.state]}>
      <p class="method">{describeRequest(seen.ask)}</p>
      {seen.says && <Notice grade="void">{seen.says}</Notice>}
      <div role="status">
        {seen.interval && (
          <div class="headline">
            <p class="claim">
              <span>δ ≤ </span>
              <b>{show(seen.interval.upper, 4, "up")}</b>
            </p>
            <p class="beside">
              at least {show(seen.interval.lower, 4, "down")}, best guess {show(seen.interval.estimate)}; {typeset(sentence(seen.interval.assumptions.at(-2) ?? ""))}
            </p>
          </div>
        )}
      </div>
      {ways.length > 0 && <ConvergencePlot of={seen.of} ways={ways} exact={seen.exact} final={seen.interval ?? null} />}
      {ways.length > 0 && (
        <p>
          The band holds at all of its draws at once, but for a chance of {show(failure)}: one may look as often as one likes. It is there to be
          watched. {seen.interval ? "The certificate is the tighter interval at its end, " : "What may be claimed is the certificate at the end, a tighter interval, "}
          whose number of draws was settled beforehand and which is wrong with the same chance of its own.
        </p>
      )}
      <Provenance seen={seen} drawn={drawn} failure={failure} />
      {seen.interval && <p class="method">Believed with it: {typeset(sentence(seen.interval.assumptions.at(-1) ?? ""))}.</p>}
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
    </Card>
  );
}

/** How the number came about, in the order in which it did; each step is told once it has happened. */
function Provenance({ seen, drawn, failure }: { seen: Snapshot; drawn: number; failure: number }) {
  const steps: [done: boolean, title: string, says: string][] = [
    [true, "Settled", `${showInteger(seen.of)} draws each way, δ at ε = ${show(Number(seen.ask.epsilon))}, a chance of ${show(failure)} to be wrong`],
    [
      seen.born !== null,
      "Seeded",
      seen.born === null
        ? "entropy from the operating system goes into the journal before the first draw"
        : `${SOURCES[seen.born.provenance] ?? seen.born.provenance}, in the journal before the first draw, for the plan ${seen.born.plan.slice(0, 12)}…`,
    ],
    [drawn >= 2 * seen.of, "Drawn", `${showInteger(drawn)} of ${showInteger(2 * seen.of)}; every count goes into the journal`],
    [seen.state === "done", "Claimed", seen.state === "done" ? "this certificate has this one outcome, however often it was stopped" : "only then: one certificate, one outcome, however often it is stopped"],
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

function CertificateList({ known, shown, open }: { known: (Snapshot & { id: string })[]; shown: string | null; open: (id: string) => void }) {
  const others = known.filter((each) => each.id !== shown && each.state !== "cancelled");
  if (others.length === 0) return null;
  return (
    <Card title="Certificates this server keeps">
      <Table
        prose
        caption="Begun and finished, newest first"
        columns={[{ title: "of what" }, { title: "state", tight: true }, { title: "δ at most", number: true }, { title: "look" }]}
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
