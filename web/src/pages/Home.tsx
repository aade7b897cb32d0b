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
import { readFederatedRequest, readQueriesRequest } from "../lib/openapi";

const RUN = readFederatedRequest({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 0.7, delta_cap: null });
const COUNTS = readQueriesRequest({ epsilon: 1, queries: 100, mechanism: "gaussian", delta: 1e-6, queries_used: 40 });

function FederatedExample() {
  const { answer } = useQuery(RUN, server.federated, { delay: 0 });
  return (
    <Card title="Federated learning: closed form and proven bound">
      <p class="method">50 000 clients, expected cohort 500, 200 rounds, noise multiplier 0.7, δ{"\u00a0"}={"\u00a0"}1/N</p>
      {answer ? (
        <>
          <div class="headline">
            <p class="claim">
              <span>ε ≤ </span>
              <b>{show(answer.epsilon.upper, 4, "up")}</b>
            </p>
            <p class="beside">proven; the closed form gives {show(answer.closed_form.total)}</p>
          </div>
          <IntervalBar lower={answer.epsilon.lower} upper={answer.epsilon.upper} estimate={answer.closed_form.total} />
          <p class="key">
            <span class="swatch claim" /> proven bound <span class="swatch estimate" /> closed form
          </p>
          <Notice grade={answer.closed_form.total < answer.epsilon.upper ? "weak" : "info"}>{typeset(answer.closed_form_note)}</Notice>
        </>
      ) : (
        <p class="empty">Computing…</p>
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
    <Card title="Queries: 100 counts under one budget">
      <p class="method">ε = 1 at δ = 10⁻⁶ for 100 counts, 40 answered{answer && `, at most ε ${show(answer.consumed.optimal.upper, 4, "up")} consumed; the other ${answer.queries_left} fit`}</p>
      {answer && share ? (
        <>
          <div class="headline">
            <p class="claim">
              <span>σ = </span>
              <b>{show(share.optimal.scale, 4, "up")}</b>
            </p>
            <p class="beside">on every count: {show(answer.saving, 3)} times less noise than the textbook’s even split</p>
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
          <Notice grade="good">With the same guarantee, 95% of answers are within ±{show(share.optimal.error_95, 4, "up")} of the true count instead of ±{show(share.classic.error_95, 4, "up")}.</Notice>
        </>
      ) : (
        <p class="empty">Computing…</p>
      )}
      <p>
        <a href="/queries?v=1&epsilon=1&queries=100&sensitivity=1&mechanism=gaussian&delta=1e-6&queries_used=40&magnitude=1000">Open this plan</a>
      </p>
    </Card>
  );
}

/** The chart, loaded separately into reserved space. */
function Live() {
  const [Hero, setHero] = useState<ComponentType | null>(null);
  useEffect(() => {
    import("../components/hero/Hero").then(
      (part) => setHero(() => part.Hero),
      () => {}, // the page works without it
    );
  }, []);
  return Hero ? <Hero /> : <section class="live card" aria-hidden="true" />;
}

/** First steps: what epsilon means, a calculation, the installation. */
function FirstMinutes() {
  return (
    <ol class="first" aria-label="The first five minutes">
      <li>
        <h2>What ε is</h2>
        <p>
          Adding or removing your data makes any set of results at most e<sup>ε</sup> times as likely, plus a small δ. At ε = 0 and δ = 0 the results do not
          depend on your data.
        </p>
        <p class="ways">
          <LearnLink page="epsilon-and-delta">ε and δ explained</LearnLink>
          <a href="/docs/glossary.html">Glossary</a>
        </p>
      </li>
      <li>
        <h2>What your run costs</h2>
        <p>Five public numbers: population, cohort size, rounds, noise multiplier and δ. No data and no account needed.</p>
        <p class="ways">
          <a class="button main" href="/federated">
            Compute a run’s cost
          </a>
          <a class="button" href="/queries">
            Plan queries
          </a>
        </p>
      </li>
      <li>
        <h2>On your computer</h2>
        <p>
          <code>pip install .</code> in a clone gives the same proven bounds in Python and on the command line.
        </p>
        <p class="ways">
          <a href="/docs/install.html">Install</a>
          <a href="/docs/how-to/plan-a-schedule.html">Compute a schedule’s cost</a>
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
          Plan, spend, <em>verify</em> and prove a privacy budget.
        </h1>
        <p>
          Differential privacy limits what results reveal about any one person. The privacy loss ε measures this limit and accumulates over releases. Move
          the sliders to see the bound for a federated learning run.
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
          <p>A release with ε = 6 can protect less than one with ε = 8. Compare two releases and see where their curves cross.</p>
          <a href="/compare">Compare two releases</a>
        </Card>
        <Card title="Verify">
          <p>Open a report to recompute its figures from the embedded evidence. Or check a certificate in this browser.</p>
          <a href="/verify">Verify a report</a>
          <a href="/certificate">Check a certificate</a>
        </Card>
        <Card title="Playground">
          <p>Compose releases: see the proven interval, the privacy profile and the TPR of attacks at an FPR of 1%.</p>
          <a href="/playground">Compose releases</a>
        </Card>
        <Card title="Monte Carlo">
          <p>Bound δ without a closed form by simulation, and watch the confidence interval shrink.</p>
          <a href="/montecarlo">Run a simulation</a>
        </Card>
        <Card title="Ledger and runs">
          <p>Caps, reserved and spent amounts; every entry with its hash; every run’s plan and records.</p>
          <a href="/ledger">Open the ledger</a>
        </Card>
        <Card title="Release control">
          <p>A game: 48 people ask, and the budgets bear six or seven precise answers. Choose whom to answer, and how precisely.</p>
          <a href="/game">Play</a>
        </Card>
      </div>
    </div>
  );
}
