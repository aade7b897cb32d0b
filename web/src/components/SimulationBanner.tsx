import { sentence } from "../lib/messages";

/** The banner of a simulated run, on every page and card that shows one. */
export const SimulationBanner = () => (
  <p class="rehearsal">
    <b>{sentence("page/rehearsal")}</b> {sentence("page/rehearsal-note")}
  </p>
);
