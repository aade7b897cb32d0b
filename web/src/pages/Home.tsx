import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card } from "../components/Card";
import { IntervalBar } from "../components/IntervalBar";
import { LearnLink } from "../components/LearnLink";
import { Notice } from "../components/Notice";
import { typeset } from "../lib/messages";
import { useQuery } from "../lib/use-query";
import { server } from "../lib/api";
import { show } from "../lib/numbers";
import { readFederatedAsk, readQueriesAsk } from "../lib/openapi";

const RUN = readFederatedAsk({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 0.7, delta_cap: null });
const COUNTS = readQueriesAsk({ epsilon: 1, queries: 100, mechanism: "gaussian", delta: 1e-6, queries_used: 40 });

function FederatedExample() {
  const { answer } = useQuery(RUN, server.federated, { delay: 0 });
  return (
    <Card title="Federated learning: one run, two answers">
      <p class="method">50 000 clients, 500 expected in a round, 200 rounds, noise multiplier 0.7, δ{"\u00a0"}={"\u00a0"}1/N</p>
      {answer ? (
        <>
          <div class="headline">
            <p class="claim">
              <span>ε ≤ </span>
              <b>{show(answer.epsilon.upper, 4, "up")}</b>
            </p>
            <p class="beside">certified; the formula that people quote says {show(answer.formula.total)}</p>
          </div>
          <IntervalBar lower={answer.epsilon.lower} upper={answer.epsilon.upper} estimate={answer.formula.total} />
          <p class="key">
            <span class="swatch claim" /> certified bound <span class="swatch estimate" /> closed form
          </p>
          <Notice grade={answer.formula.total < answer.epsilon.upper ? "weak" : "info"}>{typeset(answer.verdict)}</Notice>
        </>
      ) : (
        <p class="empty">Working it out…</p>
      )}
      <p>
        <a href="/federated?v=1&population=50000&cohort_size=500&rounds=200&noise_multiplier=0.7&delta_cap=">Open this run</a>
      </p>
    </Card>
  );
}

function QueriesExample() {
  const { answer } = useQuery(COUNTS, server.queries, { delay: 0 });
  const share = answer?.shares[0];
  return (
    <Card title="Queries: one budget, a hundred counts">
      <p class="method">ε = 1 at δ = 10⁻⁶ over 100 counts, 40 of them answered{answer && `, at most ${show(answer.consumed.optimal.upper, 4, "up")} consumed, and the other ${answer.queries_left} still fit`}</p>
      {answer && share ? (
        <>
          <div class="headline">
            <p class="claim">
              <span>σ = </span>
              <b>{show(share.optimal.scale, 4, "up")}</b>
            </p>
            <p class="beside">on every count, {show(answer.saving, 3)} times less noise than the textbook’s split</p>
          </div>
          <div class="noises">
            <span>textbook</span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect class="much" width="100" height="10" />
            </svg>
            <b>{show(share.classic.scale)}</b>
            <span>composed</span>
            <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect class="little" width={(100 * share.optimal.scale) / share.classic.scale} height="10" />
            </svg>
            <b>{show(share.optimal.scale, 4, "up")}</b>
          </div>
          <Notice grade="good">The same guarantee: 95% of the answers fall within ±{show(share.optimal.error_95, 4, "up")} of the truth instead of ±{show(share.classic.error_95, 4, "up")}.</Notice>
        </>
      ) : (
        <p class="empty">Working it out…</p>
      )}
      <p>
        <a href="/queries?v=1&epsilon=1&queries=100&sensitivity=1&mechanism=gaussian&delta=1e-6&queries_used=40&magnitude=1000">Open this plan</a>
      </p>
    </Card>
  );
}

/** The picture comes as a file of its own, into a place that is kept for it. */
function Live() {
  const [Hero, setHero] = useState<ComponentType | null>(null);
  useEffect(() => {
    import("../components/hero/Hero").then(
      (part) => setHero(() => part.Hero),
      () => {}, // the page says all it says without
    );
  }, []);
  return Hero ? <Hero /> : <section class="live card" aria-hidden="true" />;
}

/** What somebody needs who comes here for the first time: the word, a price, the tool. */
function FirstMinutes() {
  return (
    <ol class="first" aria-label="The first five minutes">
      <li>
        <h2>What ε is</h2>
        <p>
          Whatever comes out is at most e<sup>ε</sup> times as likely with your data as without it, or the other way round, plus a small δ. An ε of 0
          hides everything.
        </p>
        <p class="ways">
          <LearnLink page="epsilon-and-delta">ε and δ, for a person</LearnLink>
          <a href="/docs/glossary.html">All the words</a>
        </p>
      </li>
      <li>
        <h2>What your run costs</h2>
        <p>Five public numbers: how many people, how many in a round, how many rounds, how much noise, and δ. No data, no account.</p>
        <p class="ways">
          <a class="button main" href="/federated">
            Price a run
          </a>
          <a class="button" href="/queries">
            Plan queries
          </a>
        </p>
      </li>
      <li>
        <h2>The same at your desk</h2>
        <p>
          <code>pip install .</code> in a clone, or of a wheel, gives you the same certified numbers in Python and on the command line.
        </p>
        <p class="ways">
          <a href="/docs/install.html">Install</a>
          <a href="/docs/how-to/price-a-schedule.html">Price a schedule</a>
          <a href="/docs/tutorial.html">Tutorial</a>
        </p>
      </li>
    </ol>
  );
}

export function Home() {
  return (
    <div class="front">
      <section class="hero">
        <h1>
          A privacy budget you can plan, spend, <em>verify</em> and prove.
        </h1>
        <p>
          Differential privacy promises that no one person’s data shows. The promise has a price, ε, and it adds up. Drag, and see what a run of
          federated learning gives away of one person at most.
        </p>
      </section>
      <Live />
      <FirstMinutes />
      <div class="two worked">
        <FederatedExample />
        <QueriesExample />
      </div>
      <div class="tiles">
        <Card title="Compare">
          <p>An ε of 6 can protect worse than an ε of 8. Put two releases side by side, and see where their curves cross.</p>
          <a href="/compare">Compare two</a>
        </Card>
        <Card title="Verify">
          <p>Somebody hands you a report. Drop it here, and every number is worked out again from the evidence that it carries.</p>
          <a href="/verify">Check a report</a>
        </Card>
        <Card title="Playground">
          <p>Mix releases, see the interval, the profile and what an attacker could tell at one false alarm in a hundred.</p>
          <a href="/playground">Mix releases</a>
        </Card>
        <Card title="Monte Carlo">
          <p>Certify noise that no closed form prices, by sampling, with the interval narrowing as you watch.</p>
          <a href="/montecarlo">Run a certificate</a>
        </Card>
        <Card title="Ledger and runs">
          <p>What was promised, reserved and spent; every entry with its hash; every run with plan against observed.</p>
          <a href="/ledger">Read the ledger</a>
        </Card>
        <Card title="Release control">
          <p>Seventy-five seconds at the desk of a data curator. Too little noise is a breach; too much, and nobody learns anything.</p>
          <a href="/game">Play</a>
        </Card>
      </div>
    </div>
  );
}
