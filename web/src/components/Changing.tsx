import { useMemo } from "preact/hooks";
import type { Below } from "../pages/Federated";
import { Later } from "./Later";

/** What few ask for, fetched when it is opened. */
export function Changing({ store, claim }: Below) {
  const given = useMemo(() => store.read(), [store]);
  return (
    <>
      <Later
        title="A schedule that changes between rounds"
        says="Own cohort, noise and population for each stretch of rounds, composed and never averaged."
        open={given.stretches !== undefined}
        load={async () => (await import("../pages/Stretches")).Stretches}
        with={{ store, claim }}
      />
    </>
  );
}
