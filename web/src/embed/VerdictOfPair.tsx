// <epsilog-verdict epsilon="4" delta="1e-5">: the card of epsilon and delta, computed in the reader's browser.

import { VerdictCard } from "../components/VerdictCard";
import { type Store, useForm } from "../lib/form";
import { SPECS } from "../lib/verdict";
import { cardOfPair } from "../lib/verdict-pair";

export function VerdictOfPair({ store }: { store: Store }) {
  const { values } = useForm(SPECS, store);
  if (values === null || typeof values.epsilon !== "number") return <p class="empty">This card needs a number as its epsilon, a delta from 0 to below 1, and a prior between 0 and 1.</p>;
  if (values.release) return <p class="empty">A card of a mechanism needs a server: use its frame.</p>;
  const pair = { epsilon: values.epsilon, delta: Number(values.delta), prior: Number(values.prior), unit: String(values.privacy_unit), replaces: values.relation !== "add-or-remove-one" };
  return <VerdictCard card={cardOfPair(pair)} settled />;
}
