// The workflow over four pages: plan, budget, run, report.

const STEPS = [
  { path: "/federated", name: "Plan" },
  { path: "/ledger", name: "Budget" },
  { path: "/runs", name: "Run" },
  { path: "/verify", name: "Report" },
] as const;

/** The step of this page, with links to the previous and next steps. */
export function WorkflowNav({ at }: { at: string }) {
  const here = STEPS.findIndex((step) => step.path === (at === "/queries" || at === "/dp-sgd" ? "/federated" : at));
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
          </li>
        ))}
      </ol>
    </nav>
  );
}
