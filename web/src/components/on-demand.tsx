// Parts that a page loads when it first draws them: the first number does not wait for them.

import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ScenariosProps } from "./Scenarios";

const LOADING = <p class="empty">Loading…</p>;

/** Return what `load` gives, once it is there; until then what stands in its place. */
function usePart<T>(load: () => Promise<T>, waiting: ComponentChildren): { part: T } | { instead: ComponentChildren } {
  const [state, setState] = useState<{ part: T } | "waits" | "failed">("waits");
  useEffect(() => {
    load().then(
      (part) => setState({ part }),
      () => setState("failed"),
    );
  }, []);
  if (typeof state !== "string") return state;
  return { instead: state === "failed" ? <p class="empty">This part could not be loaded. Check that the server is running, and reload the page.</p> : waiting };
}

/** Return a component like the loaded one; `waiting` stands in its place until it is there. */
function loadOnUse<P extends object>(load: () => Promise<ComponentType<P>>, waiting: ComponentChildren = LOADING): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return (props: P) => {
    const found = usePart(async () => (loaded ??= await load()), waiting);
    const Part = "part" in found ? found.part : loaded;
    return Part ? <Part {...props} /> : <>{"instead" in found && found.instead}</>;
  };
}

const loadScenarios = () => import("./Scenarios");

export function Scenarios<Q, A>(props: ScenariosProps<Q, A>) {
  const found = usePart(loadScenarios, LOADING);
  return "part" in found ? <found.part.Scenarios {...props} /> : <>{found.instead}</>;
}

export const Plot = /* @__PURE__ */ loadOnUse(async () => (await import("./Plot")).Plot);
export const Interpretation = /* @__PURE__ */ loadOnUse(async () => (await import("./Interpretation")).Interpretation);
export const ExportParts = /* @__PURE__ */ loadOnUse(async () => (await import("./ExportParts")).ExportParts);
export const Sensitivity = /* @__PURE__ */ loadOnUse(async () => (await import("../pages/Sensitivity")).Sensitivity);
export const GetCertificate = /* @__PURE__ */ loadOnUse(
  async () => (await import("./GetCertificate")).GetCertificate,
  <div class="certified">
    <div class="buttons">
      <button type="button" class="quiet" disabled>
        Get a certificate
      </button>
    </div>
  </div>,
);
