// One story on four pages: what is planned is booked, what is booked is run, what was run is reported. Same names everywhere.

const STEPS = [
  { path: "/federated", name: "Plan", says: "what it costs, before anything runs" },
  { path: "/ledger", name: "Budget", says: "what was promised, reserved and spent" },
  { path: "/runs", name: "Run", says: "the plan against what was observed" },
  { path: "/verify", name: "Report", says: "what somebody else can work out again" },
] as const;

/** Where this page stands in the story, with the way back and the way on. */
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
