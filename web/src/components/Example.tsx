// The example of the home page: one federated run, its bound, and what it means for people.

import { useMemo, useRef } from "preact/hooks";
import { browserEngine } from "../lib/browser-accountant/engine";
import { server } from "../lib/api";
import { type FieldSpec, useForm } from "../lib/form";
import { sentence } from "../lib/messages";
import { readFederatedRequest } from "../lib/openapi";
import { bound, countPicked, explainPicked, GUESSED, near } from "../lib/quantities";
import { toQuery, urlStore } from "../lib/url-state";
import { useRefinedQuery } from "../lib/use-query";
import { useFoundCount } from "../lib/use-risk";
import { Drag, stops } from "./Drag";
import { LiveRegion } from "./LiveRegion";
import { People } from "./People";

const SPECS: readonly FieldSpec[] = [{ name: "noise_multiplier", label: "Noise", kind: "real", initial: "0.7", min: 0.03, max: 1e6 }];
const RUN = { population: 50_000, cohort_size: 500, rounds: 200, delta: 1e-6 };
const NOISE = stops(0.3, 10);

export function Example() {
  const store = useMemo(urlStore, []);
  const form = useForm(SPECS, store);
  const ask = useMemo(() => form.values && readFederatedRequest({ ...RUN, ...form.values }), [form.values]);
  const main = useRefinedQuery(ask, server.federated, browserEngine.federated, { delay: 200 });
  const { count: found, settled } = useFoundCount(main);
  const begun = useRef(false); // the first figure is the server's: the browser's may be one higher, and would change at once
  begun.current ||= settled;
  const answer = begun.current ? main.answer : null;
  const visibleCount = answer ? found : 2 * GUESSED; // an unseen number keeps the place of the first
  const picked = answer && `${countPicked(found)} ${sentence(explainPicked(found, "clients"))}`;
  return (
    <>
      <h2>Train a model on 50,000 phones for 200 rounds</h2>
      <div class={answer ? undefined : "reserved"}>
        <People guessed={GUESSED} found={visibleCount} says={picked ?? ""} />
        <div class="duo">
          <p class="risk">
            <b>{countPicked(visibleCount)}</b> {sentence(explainPicked(visibleCount, "clients"))}
          </p>
          <p class="use claim">
            <b>ε ≤ {bound(answer?.epsilon.upper)}</b> at δ = {near(answer?.delta.value ?? RUN.delta)}, a proven bound.
          </p>
        </div>
      </div>
      <form aria-label="Noise" onSubmit={(e) => e.preventDefault()}>
        <Drag form={form} name="noise_multiplier" at={NOISE} label="Noise" ends={["less noise", "more noise"]} says={picked ?? "no result"} />
      </form>
      <p class="onward">
        <a href={`/federated?${toQuery({ ...Object.fromEntries(Object.entries(RUN).map(([name, value]) => [name, String(value)])), ...form.raw })}`}>Change this run</a>
      </p>
      {picked && <LiveRegion text={`At most ${picked}`} />}
    </>
  );
}
