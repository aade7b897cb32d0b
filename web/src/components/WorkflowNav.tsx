// The workflow over four pages: plan, budget, run, report.

const STEPS = [
  { path: "/federated", name: "Plan", says: "compute the cost before the run" },
  { path: "/ledger", name: "Budget", says: "caps, reserved and spent amounts" },
  { path: "/runs", name: "Run", says: "compare the plan with the records" },
  { path: "/verify", name: "Report", says: "recompute every figure" },
] as const;

/** The step of this page, with links to the previous and next steps. */
export function WorkflowNav({ at }: { at: string }) {
  const here = STEPS.findIndex((step) => step.path === (at === "/queries" ? "/federated" : at));
  if (here < 0) return null;
  return (
    <nav class="story" aria-label="From plan to report">
      <ol>
        {STEPS.map((step, i) => (
          <li key={step.path} class={i === here ? "here" : undefined}>
            {i === here ? (
              <b aria-current="step">{step.name}</b>
            ) : (
              <a href={step.path} rel={i === here + 1 ? "next" : i === here - 1 ? "prev" : undefined}>
                {step.name}
              </a>
            )}
            <small>{step.says}</small>
          </li>
        ))}
      </ol>
    </nav>
  );
}
