// Parts that a page loads when it first draws them: the first number does not wait for them.

import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Return a component like the loaded one; `waiting` stands in its place until it is there. */
function later<C extends ComponentType<any>>(load: () => Promise<C>, waiting: ComponentChildren = <p class="empty">Loading…</p>): C {
  let Loaded: ComponentType | null = null;
  const Later = (props: object) => {
    const [state, setState] = useState<"waits" | "there" | "failed">("waits");
    useEffect(() => {
      if (Loaded === null)
        load().then(
          (found) => {
            Loaded = found as ComponentType;
            setState("there");
          },
          () => setState("failed"),
        );
    }, []);
    return Loaded ? <Loaded {...props} /> : <>{state === "failed" ? <p class="empty">This part could not be loaded. Check that the server is running, and reload the page.</p> : waiting}</>;
  };
  return Later as unknown as C;
}

export const Plot = /* @__PURE__ */ later(async () => (await import("./Plot")).Plot);
export const Scenarios = /* @__PURE__ */ later(async () => (await import("./Scenarios")).Scenarios);
export const Interpretation = /* @__PURE__ */ later(async () => (await import("./Interpretation")).Interpretation);
export const ExportParts = /* @__PURE__ */ later(async () => (await import("./ExportParts")).ExportParts);
export const Sensitivity = /* @__PURE__ */ later(async () => (await import("../pages/Sensitivity")).Sensitivity);
export const GetCertificate = /* @__PURE__ */ later(
  async () => (await import("./GetCertificate")).GetCertificate,
  <div class="certified">
    <div class="buttons">
      <button type="button" class="quiet" disabled>
        Get a certificate
      </button>
    </div>
  </div>,
);
