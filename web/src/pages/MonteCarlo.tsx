import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Card, Notice, Stat, Trouble } from "../components/bits";
import { Field } from "../components/Field";
import { Plot } from "../components/Plot";
import { addressStore } from "../lib/address";
import { post } from "../lib/api";
import type { FieldSpec } from "../lib/form";
import { useForm } from "../lib/form";
import { show, showWhole, typeset } from "../lib/numbers";
import { Problem } from "../lib/types";

const SPECS: readonly FieldSpec[] = [
  { name: "bins", label: "Bins", symbol: "b", kind: "whole", initial: "16", least: 1, most: 1024, hint: "rounds in an epoch" },
  { name: "epochs", label: "Epochs", kind: "whole", initial: "1", least: 1, most: 100 },
  { name: "noise_multiplier", label: "Noise multiplier", symbol: "σ", kind: "real", initial: "1", above: 0, most: 1000 },
  { name: "epsilon", label: "At", symbol: "ε", kind: "real", initial: "1", least: 0, most: 100 },
  { name: "failure", label: "Chance to be wrong", kind: "real", initial: "1e-6", above: 0, below: 1 },
  { name: "samples", label: "Draws each way", kind: "whole", initial: "4000000", least: 1000, most: 50_000_000 },
];

interface Seen {
  draws: number;
  hits: number;
  lower: number;
  upper: number;
}

interface Snapshot {
  state: "running" | "paused" | "done" | "failed" | "cancelled";
  of: number;
  directions: Record<string, Seen>;
  interval?: { lower: number; upper: number; estimate: number; method: string; assumptions: string[] };
  says?: string;
}

const OVER = ["done", "failed", "cancelled"];

export function MonteCarlo() {
  const store = useMemo(addressStore, []);
  const form = useForm(SPECS, store);
  const [job, setJob] = useState<{ id: string; exact: number } | null>(null);
  const [seen, setSeen] = useState<Snapshot | null>(null);
  const [trouble, setTrouble] = useState<Problem | null>(null);
  const trail = useRef<Record<string, Seen[]>>({});

  useEffect(() => {
    if (job === null) return;
    const source = new EventSource(`/api/v1/certificates/${job.id}/events`);
    source.onmessage = (event: MessageEvent<string>) => {
      const next = JSON.parse(event.data) as Snapshot;
      for (const [way, now] of Object.entries(next.directions)) {
        const past = (trail.current[way] ??= []);
        if (now.draws > (past.at(-1)?.draws ?? 0)) past.push(now);
      }
      setSeen(next);
      if (OVER.includes(next.state)) source.close();
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTrouble(new Problem("The server does not answer", "The certificate was lost with it."));
    };
    return () => source.close();
  }, [job]);

  const begin = async (): Promise<void> => {
    if (form.values === null) return;
    setTrouble(null);
    setSeen(null);
    trail.current = {};
    try {
      setJob(await post<{ id: string; exact: number }>("certificates", form.values));
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
      form.refuse(problem.errors);
      setTrouble(problem);
    }
  };
  const steer = (verb: string) => () => void post(`certificates/${job!.id}/${verb}`, {}).catch(setTrouble);
  const running = seen !== null && !OVER.includes(seen.state);
  const drawn = Object.values(seen?.directions ?? {}).reduce((sum, way) => sum + way.draws, 0);
  const trails = Object.entries(trail.current).filter(([, past]) => past.length > 1);
  const furthest = Math.max(1, ...trails.flatMap(([, past]) => past.map((each) => each.draws)));

  return (
    <div class="stack">
      <Card>
        <p>
          Balls in bins: each unit is put into one of b rounds at random. Here draws decide what δ holds at ε, with the interval narrowing as you watch.
          This case is also known exactly, so you can see the certificate come true; the command line certifies those that are not.
        </p>
        <form
          aria-label="Certificate"
          onSubmit={(e) => {
            e.preventDefault();
            void begin();
          }}
        >
          <div class="pair">
            {SPECS.map((spec) => (
              <Field key={spec.name} form={form} name={spec.name} />
            ))}
          </div>
          <div class="buttons">
            <button type="submit" class="main" disabled={form.values === null || running}>
              Draw
            </button>
            {running && (
              <>
                {seen.state === "paused" ? (
                  <button type="button" onClick={steer("resume")}>
                    Resume
                  </button>
                ) : (
                  <button type="button" onClick={steer("pause")}>
                    Pause
                  </button>
                )}
                <button type="button" class="quiet" onClick={steer("cancel")}>
                  Cancel
                </button>
              </>
            )}
            {seen?.state === "done" && (
              <a class="button" href={`/api/v1/certificates/${job!.id}/evidence.json`} download>
                Download the evidence
              </a>
            )}
          </div>
        </form>
        {trouble && <Trouble problem={trouble} />}
      </Card>
      {seen && job && (
        <Card title={{ running: "Drawing", paused: "Paused", done: "Certified", failed: "Refused", cancelled: "Cancelled" }[seen.state]}>
          <svg class="budget" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={`${show((50 * drawn) / seen.of, 3)} % drawn`}>
            <rect class="rail" width="100" height="6" />
            <rect class="spent" width={Math.min(100, (50 * drawn) / seen.of)} height="6" />
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
          <dl class="stats">
            <Stat label="Draws" note={`of ${showWhole(2 * seen.of)}, both directions`}>
              {showWhole(drawn)}
            </Stat>
            {Object.entries(seen.directions).map(([way, s]) => (
              <Stat key={way} label={`${way}: δ between`} note={`${showWhole(s.hits)} hits`}>
                {show(s.lower, 3, "down")} and {show(s.upper, 3, "up")}
              </Stat>
            ))}
            <Stat label="Known exactly" note="worse direction">
              {show(job.exact, 5)}
            </Stat>
          </dl>
          {trails.length > 0 && (
            <Plot
              title="The interval of each direction, valid however often one looks; the worse one counts"
              x={{ title: "draws in that direction" }}
              y={{ title: "δ", log: true }}
              series={[
                ...trails.flatMap(([way, past]) =>
                  (["upper", "lower"] as const).map((end) => ({
                    name: `${way}: ${end}`,
                    look: way === "remove" ? ("claim" as const) : ("other" as const),
                    points: past.map((each) => [each.draws, each[end]] as const),
                  })),
                ),
                { name: "known exactly", look: "estimate", points: [[1, job.exact], [furthest, job.exact]] },
              ]}
            />
          )}
        </Card>
      )}
    </div>
  );
}
